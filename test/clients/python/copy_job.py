"""The transactional copy job with confluent-kafka (librdkafka).

    copy_job.py INPUT OUTPUT GROUP TRANSACTIONAL_ID

Every copy job reads the input in a group, and writes each record with its key to the output in a transaction, together with the
group's offsets. It writes "VALUE TRANSACTION COUNT": the value that it read, a name of the transaction, and how many records the
transaction has. It aborts one of eight on purpose, and what failed, and then reads again from what is committed. It prints one JSON
object a line: {committed: TRANSACTION} when that was acknowledged, {aborted: TRANSACTION} before one that it means to abort, and
after one that it aborted because something failed. When it can't go on, it ends with code 3, and is to be started again.
"""

import faulthandler
import os
import random
import signal
import sys

from client import bootstrap, group_instance, group_protocol, noted, printed
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

source, output, group, transactional_id = sys.argv[1:]
config = {
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "log_level": 3,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "group.protocol": group_protocol,
}
if group_instance:
    config["group.instance.id"] = group_instance
if group_protocol == "classic":
    config |= {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
consumer = Consumer(config)
producer = Producer({
    "bootstrap.servers": bootstrap,
    "transactional.id": transactional_id,
    "log_level": 3,
    "transaction.timeout.ms": 10_000,
    "linger.ms": 2,
    "partitioner": "murmur2_random",
})
running, changed = True, False
timeout = 30  # of each call, in seconds
following = {}  # the offset that comes next, by partition, where that is known: the input has no gaps


def stop(*_):
    global running
    running = False


def changes(*_):
    """What was polled with this may be of partitions that another member has now."""
    global changed
    changed = True
    following.clear()


def end(reason):
    noted(reason)
    os._exit(3)


def bounded(call, *args, **named):
    """Calls what has a timeout of its own. librdkafka's send_offsets_to_transaction may overlook it (its issues 5456 and 5511): then the
    stack is printed and the job ends, as one does that its supervisor ends."""
    faulthandler.dump_traceback_later(timeout + 30, exit=True)
    try:
        return call(*args, **named)
    finally:
        faulthandler.cancel_dump_traceback_later()


def tried(call, *args):
    """Calls until it succeeds or fails for good."""
    while True:
        try:
            return bounded(call, *args)
        except KafkaException as failed:
            if not failed.args[0].retriable():
                raise
            noted(failed)


def rewind():
    owned = consumer.assignment()
    if not owned:
        return
    for p in bounded(consumer.committed, owned, timeout=timeout):
        if p.error is not None:
            end(p.error)
        consumer.seek(TopicPartition(p.topic, p.partition, p.offset if p.offset >= 0 else OFFSET_BEGINNING))
        following[p.topic, p.partition] = max(p.offset, 0)


def check(records):
    """A seek that came to nothing, as the client was busy with the partition, must not leave records out."""
    for r in records:
        expected = following.get((r.topic(), r.partition()), r.offset())
        if r.offset() != expected:
            end(f"{r.topic()}-{r.partition()} goes on at {r.offset()}, {expected} comes next")
        following[r.topic(), r.partition()] = r.offset() + 1


def check_idle():
    """As check, where nothing comes at all."""
    owned = consumer.assignment()
    at = {(p.topic, p.partition): p.offset for p in consumer.position(owned)} if owned else {}
    for place, expected in following.items():
        if at.get(place, -1) > expected:
            end(f"{place} stands at {at[place]}, {expected} comes next")


def copy(records, transaction, abort):
    producer.begin_transaction()
    ends = {}
    for r in records:
        producer.produce(output, key=r.key(), value=r.value() + f" {transaction} {len(records)}".encode())
        ends[r.topic(), r.partition()] = r.offset() + 1
    offsets = [TopicPartition(topic, p, end) for (topic, p), end in ends.items()]
    tried(producer.send_offsets_to_transaction, offsets, consumer.consumer_group_metadata(), timeout)
    if abort:
        bounded(producer.flush, timeout)
        tried(producer.abort_transaction, timeout)
        rewind()
    else:
        tried(producer.commit_transaction, timeout)
        printed(committed=transaction)


signal.signal(signal.SIGTERM, stop)
run = f"{transactional_id}-{os.getpid()}-{random.getrandbits(32):x}"
try:
    tried(producer.init_transactions, timeout)
except KafkaException as failed:
    end(failed)
consumer.subscribe([source], on_assign=changes, on_revoke=changes, on_lost=changes)
count = idle = 0
while running:
    changed = False
    polled = bounded(consumer.consume, 40, 0.2)
    records = [r for r in polled if r.error() is None]
    for r in polled:
        if r.error() is not None:
            if r.error().fatal():
                end(r.error())
            noted(r.error())
    if not records:
        idle += 1
        if idle % 50 == 0:  # for 10 s: what was to be read again has come by then, or never does
            check_idle()
        continue
    idle = 0
    count += 1
    transaction = f"{run}-{count}"
    try:
        if changed:
            rewind()
            continue
        check(records)
        abort = random.randrange(8) == 0
        if abort:
            printed(aborted=transaction)
        copy(records, transaction, abort)
    except KafkaException as failed:
        noted(f"{transaction}: {failed}")
        if not failed.args[0].txn_requires_abort():
            end(failed)
        try:
            tried(producer.abort_transaction, timeout)
            printed(aborted=transaction)
            rewind()
        except KafkaException as again:
            end(again)
consumer.close()
