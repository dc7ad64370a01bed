"""What the Python client programs share: the commands of the client tests.

    create TOPIC PARTITIONS
    produce TOPIC CODEC FIRST COUNT KEYS
    consume GROUP TOPIC COUNT          (0: until SIGTERM)

Each prints one JSON object a line: {key, partition, offset}, {key, value, partition, offset} or {assigned: [partitions]}.
"""

import json
import os
import sys

bootstrap = os.environ["BOOTSTRAP"]
# Of groups: "consumer" is the protocol of KIP-848.
group_protocol = os.environ.get("GROUP_PROTOCOL", "classic")


def session_timeout(count):
    """Milliseconds: short where members are to be replaced, Kafka's default where one member reads alone and must not be put out."""
    return 45_000 if count else 6_000


def printed(**line):
    print(json.dumps(line), flush=True)


def noted(what):
    """Tells the reader of a failed test, who sees standard error, of something that a consumer has to live with."""
    print(what, file=sys.stderr, flush=True)


def made(first, count, keys):
    for i in range(first, first + count):
        yield (f"key-{i % keys}".encode() if keys else None), f"value-{i}".encode()


def main(create, produce, consume):
    command, *args = sys.argv[1:]
    if command == "create":
        create(args[0], int(args[1]))
    elif command == "produce":
        topic, codec, first, count, keys = args
        produce(topic, codec, made(int(first), int(count), int(keys)))
    elif command == "consume":
        consume(args[0], args[1], int(args[2]))
    else:
        raise SystemExit(f"unknown command {command}")
