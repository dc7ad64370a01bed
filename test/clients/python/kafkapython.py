"""kafka-python as its users write it, driven by the client tests; see client.py for the commands."""

import signal

from client import bootstrap, main, noted, printed, session_timeout, told
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import CommitFailedError, RebalanceInProgressError


def create(topic, partitions):
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, partitions, 1)])
    admin.close()


def produce(topic, codec, records):
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", compression_type=None if codec == "none" else codec)
    sent = [(key, producer.send(topic, key=key, value=value)) for key, value in records]
    producer.flush()
    for key, future in sent:
        metadata = future.get(timeout=60)
        printed(key=key and key.decode(), partition=metadata.partition, offset=metadata.offset)
    producer.close()


class Listener(ConsumerRebalanceListener):
    def __init__(self, consumer):
        self.consumer = consumer

    def on_partitions_revoked(self, revoked):
        printed(assigned=sorted(p.partition for p in self.consumer.assignment() - set(revoked)))

    def on_partitions_assigned(self, assigned):
        printed(assigned=sorted(p.partition for p in self.consumer.assignment()))


def commit(consumer, alone):
    """Commits what was read. A rebalance that began since the poll refuses that; the next poll takes part in it, and whoever owns
    the partitions then reads again what was not committed. To a member that is alone that must not happen."""
    try:
        consumer.commit()
    except (CommitFailedError, RebalanceInProgressError) as refused:
        if alone:
            raise
        noted(refused)


def consume(group, topic, count):
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        session_timeout_ms=session_timeout(count), heartbeat_interval_ms=500)
    running = True

    def stop(*_):
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    consumer.subscribe([topic], listener=Listener(consumer))
    seen = 0
    while running and (not count or seen < count):
        # Long enough for a join: the library joins once more when the topic's metadata has come, and if a poll times out amid that,
        # 3.0.12 takes itself for joined, sends no heartbeats any more, and is put out for good.
        polled = consumer.poll(timeout_ms=30_000, max_records=(count - seen) if count else None)
        for records in polled.values():
            for record in records:
                printed(key=record.key and record.key.decode(), value=record.value.decode(), partition=record.partition, offset=record.offset)
                seen += 1
        if polled:
            commit(consumer, alone=count > 0)
    consumer.close()


def write(topic, records, codecs):
    for codec in codecs:
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec)
        sent = [producer.send(topic, key=key, value=value, headers=headers) for key, value, headers in records]
        producer.flush()
        for future in sent:
            future.get(timeout=60)
        producer.close()


def read(group, topic, count):
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest")
    for record in consumer:
        told(record.key, record.value, record.headers)
        count -= 1
        if not count:
            break
    consumer.close()


main(create, produce, consume, write, read)
