"""aiokafka as its users write it, driven by the client tests; see client.py for the commands."""

import asyncio
import signal

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import CommitFailedError, IllegalStateError
from client import bootstrap, main, noted, printed, session_timeout, told


async def create(topic, partitions):
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, partitions, 1)])
    await admin.close()


async def produce(topic, codec, records):
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True,
        compression_type=None if codec == "none" else codec)
    await producer.start()
    sent = [(key, await producer.send(topic, key=key, value=value)) for key, value in records]
    for key, future in sent:
        metadata = await future
        printed(key=key and key.decode(), partition=metadata.partition, offset=metadata.offset)
    await producer.stop()


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked):
        pass

    def on_partitions_assigned(self, assigned):
        printed(assigned=sorted(p.partition for p in assigned))


async def commit(consumer, alone):
    """Commits what was read. A rebalance that began since then refuses that (IllegalStateError: the partitions are given up
    already), and whoever owns them next reads them again. To a member that is alone that must not happen."""
    try:
        await consumer.commit()
    except (CommitFailedError, IllegalStateError) as refused:
        if alone:
            raise
        noted(refused)


async def consume(group, topic, count):
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        session_timeout_ms=session_timeout(count), heartbeat_interval_ms=500)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    seen = 0
    while not stopped.is_set() and (not count or seen < count):
        batches = await consumer.getmany(timeout_ms=200, max_records=(count - seen) if count else None)
        for records in batches.values():
            for record in records:
                printed(key=record.key and record.key.decode(), value=record.value.decode(), partition=record.partition, offset=record.offset)
                seen += 1
        if batches:
            await commit(consumer, alone=count > 0)
    await consumer.stop()


async def write(topic, records, codecs):
    for codec in codecs:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec)
        await producer.start()
        for key, value, headers in records:
            await producer.send_and_wait(topic, key=key, value=value, headers=headers)
        await producer.stop()


async def read(group, topic, count):
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest")
    await consumer.start()
    async for record in consumer:
        told(record.key, record.value, record.headers)
        count -= 1
        if not count:
            break
    await consumer.stop()


main(
    lambda *args: asyncio.run(create(*args)),
    lambda *args: asyncio.run(produce(*args)),
    lambda *args: asyncio.run(consume(*args)),
    lambda *args: asyncio.run(write(*args)),
    lambda *args: asyncio.run(read(*args)),
)
