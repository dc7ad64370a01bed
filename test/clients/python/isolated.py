"""Reads a topic from its start to its end as confluent-kafka (librdkafka) sees it at an isolation level.

    isolated.py TOPIC PARTITIONS LEVEL

Prints {partition, offset, value} for each record, the value's first line only.
"""

import sys

from client import bootstrap, printed
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

topic, partitions, level = sys.argv[1], int(sys.argv[2]), sys.argv[3]
consumer = Consumer({
    "bootstrap.servers": bootstrap,
    "group.id": "isolated",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": level,
})
consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
ended = set()
while len(ended) < partitions:
    message = consumer.poll(10)
    if message is None:
        raise SystemExit(f"nothing for 10 s; at the end of {ended}")
    if message.error() is None:
        printed(partition=message.partition(), offset=message.offset(), value=message.value().split(b"\n")[0].decode())
    elif message.error().code() == KafkaError._PARTITION_EOF:
        ended.add(message.partition())
    else:
        raise SystemExit(str(message.error()))
consumer.close()
