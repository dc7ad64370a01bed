"""kafka-python as its users write it, driven by the client tests; see client.py for the commands."""

import signal

from client import bootstrap, main, printed
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic


def create(topic, partitions):
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, partitions, 1)])
    admin.close()


def produce(topic, codec, records):
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", compression_type=None if codec == "none" else codec)
    sent = [(key, producer.send(topic, key=key, value=value)) for key, value in records]
    producer.flush()
    for key, future in sent:
        metadata = future.get(timeout=10)
        printed(key=key and key.decode(), partition=metadata.partition, offset=metadata.offset)
    producer.close()


class Listener(ConsumerRebalanceListener):
    def __init__(self, consumer):
        self.consumer = consumer

    def on_partitions_revoked(self, revoked):
        printed(assigned=sorted(p.partition for p in self.consumer.assignment() - set(revoked)))

    def on_partitions_assigned(self, assigned):
        printed(assigned=sorted(p.partition for p in self.consumer.assignment()))


def consume(group, topic, count):
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        session_timeout_ms=6000, heartbeat_interval_ms=500)
    running = True

    def stop(*_):
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    consumer.subscribe([topic], listener=Listener(consumer))
    seen = 0
    while running and (not count or seen < count):
        for records in consumer.poll(timeout_ms=200, max_records=(count - seen) if count else None).values():
            for record in records:
                printed(key=record.key and record.key.decode(), value=record.value.decode(), partition=record.partition, offset=record.offset)
                seen += 1
        if seen:
            consumer.commit()
    consumer.close()


main(create, produce, consume)
