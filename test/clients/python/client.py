"""What the Python client programs share: the commands of the client tests.

    create TOPIC PARTITIONS
    produce TOPIC CODEC FIRST COUNT KEYS
    consume GROUP TOPIC COUNT          (0: until SIGTERM; a TOPIC that begins with ^ is a regular expression)
    write TOPIC FILE CODEC,CODEC...    each record of FILE once with each codec
    read GROUP TOPIC COUNT             with all settings at their defaults, but for the beginning as the place to start
    stream TOPIC PARTITIONS NAME RATE  until SIGTERM: sends NAME/PARTITION/0, NAME/PARTITION/1 … to each partition, RATE records a second in
                                       all, idempotent, never gives up, and lets 20 records at most wait; then it waits for the last of them

The first three and the last print one JSON object a line: {key, partition, offset}, {key, value, partition, offset} or
{assigned: [partitions]}. A record of the last two is a line of words: key, value, and for each header its name and its value;
each is a colon and base64, or - for null.
"""

import base64
import json
import os
import sys

bootstrap = os.environ["BOOTSTRAP"]
# Of groups: "consumer" is the protocol of KIP-848.
group_protocol = os.environ.get("GROUP_PROTOCOL", "classic")
# Of a static member.
group_instance = os.environ.get("GROUP_INSTANCE")


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


def word(content):
    return "-" if content is None else ":" + base64.b64encode(content).decode()


def read_file(name):
    """Yields key, value and headers of each record."""
    with open(name) as file:
        for line in file:
            key, value, *rest = [None if w == "-" else base64.b64decode(w[1:]) for w in line.split()]
            yield key, value, [(name.decode(), content) for name, content in zip(rest[::2], rest[1::2])]


def told(key, value, headers):
    words = [key, value]
    for name, content in headers or ():
        words += name.encode(), content
    print(" ".join(map(word, words)), flush=True)


def main(create, produce, consume, write, read, stream=None):
    command, *args = sys.argv[1:]
    if command == "create":
        create(args[0], int(args[1]))
    elif command == "produce":
        topic, codec, first, count, keys = args
        produce(topic, codec, made(int(first), int(count), int(keys)))
    elif command == "consume":
        consume(args[0], args[1], int(args[2]))
    elif command == "write":
        write(args[0], list(read_file(args[1])), args[2].split(","))
    elif command == "read":
        read(args[0], args[1], int(args[2]))
    elif command == "stream" and stream:
        stream(args[0], int(args[1]), args[2], int(args[3]))
    else:
        raise SystemExit(f"unknown command {command}")
