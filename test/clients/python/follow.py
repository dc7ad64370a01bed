"""A read_committed reader with one of Python's clients.

    follow.py confluent|aiokafka TOPIC,TOPIC...

Every such reader reads the topics from offset 0 of each partition until it is killed, whatever happens to the broker, and prints one
JSON object a line: {assigned: …} when it is ready, and then for each record {topic, partition, offset, key, value}. One that can only
read in a group prints {assigned: …} whenever it joins, from where it may read again what it has read. It ends with another code than 0 when it would have to skip something.
"""

import asyncio
import sys

from client import bootstrap, noted, printed

library, topics = sys.argv[1], sys.argv[2].split(",")


def told(topic, partition, offset, key, value):
    printed(topic=topic, partition=partition, offset=offset, key=key.decode(), value=value.decode())


def confluent():
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": "follow",
        "log_level": 3,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
    })
    metadata = consumer.list_topics(timeout=120)
    consumer.assign([TopicPartition(t, p, 0) for t in topics for p in metadata.topics[t].partitions])
    printed(assigned=[])
    while True:
        for message in consumer.consume(500, 0.5):
            if message.error() is None:
                told(message.topic(), message.partition(), message.offset(), message.key(), message.value())
            elif message.error().fatal() or message.error().code() == KafkaError._AUTO_OFFSET_RESET:
                raise SystemExit(str(message.error()))
            else:
                noted(message.error())


async def aiokafka():
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="none", isolation_level="read_committed")
    await consumer.start()
    partitions = []
    for topic in topics:
        # Of a topic that is not subscribed to, the client asks for the metadata then.
        await consumer._client._wait_on_metadata(topic)
        partitions += [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
    consumer.assign(partitions)
    for p in partitions:
        consumer.seek(p, 0)
    printed(assigned=[])
    while True:
        for records in (await consumer.getmany(timeout_ms=500)).values():
            for r in records:
                told(r.topic, r.partition, r.offset, r.key, r.value)


confluent() if library == "confluent" else asyncio.run(aiokafka())
