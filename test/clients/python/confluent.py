"""confluent-kafka (librdkafka) as its users write it, driven by the client tests; see client.py for the commands."""

import signal
import time

from client import bootstrap, group_instance, group_protocol, main, noted, printed, session_timeout, told
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic


def create(topic, partitions):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    futures = admin.create_topics([NewTopic(topic, partitions)])
    for future in futures.values():
        future.result()


def produce(topic, codec, records):
    producer = Producer({
        "bootstrap.servers": bootstrap,
        "compression.type": codec,
        "partitioner": "murmur2_random",
        "enable.idempotence": True,
        "linger.ms": 5,
    })
    failures = []

    def delivered(error, message):
        if error is not None:
            failures.append(error)
            return
        key = message.key()
        printed(key=key and key.decode(), partition=message.partition(), offset=message.offset())

    for key, value in records:
        producer.produce(topic, key=key, value=value, on_delivery=delivered)
    if producer.flush(60) or failures:
        raise SystemExit(f"not delivered: {failures}")


def consume(group, topic, count):
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "group.protocol": group_protocol,
    }
    if group_instance:
        config["group.instance.id"] = group_instance
    if group_protocol == "classic":  # else the broker says
        config |= {"session.timeout.ms": session_timeout(count or group_instance), "heartbeat.interval.ms": 500}
    consumer = Consumer(config)
    running = True

    def stop(*_):
        nonlocal running
        running = False

    owned = set()

    def assigned(consumer, partitions):
        if group_protocol == "classic":
            owned.clear()
        owned.update((p.topic, p.partition) for p in partitions)
        printed(assigned=sorted(p for _, p in owned))

    def revoked(consumer, partitions):
        owned.difference_update((p.topic, p.partition) for p in partitions)
        printed(assigned=sorted(p for _, p in owned))

    signal.signal(signal.SIGTERM, stop)
    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked)
    seen = 0
    while running:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():  # librdkafka mends by itself what is not fatal
            if message.error().fatal() or message.error().code() == KafkaError._FATAL:
                raise SystemExit(str(message.error()))
            noted(message.error())
            continue
        key = message.key()
        printed(key=key and key.decode(), value=message.value().decode(), partition=message.partition(), offset=message.offset())
        seen += 1
        if count and seen >= count:
            break
        if not count:
            consumer.commit(asynchronous=True)
    if count and running:
        consumer.commit(asynchronous=False)
    consumer.close()


def write(topic, records, codecs):
    for codec in codecs:
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        failures = []
        for key, value, headers in records:
            producer.produce(topic, key=key, value=value, headers=headers, on_delivery=lambda error, _: error and failures.append(error))
        if producer.flush(60) or failures:
            raise SystemExit(f"not delivered: {failures}")


def read(group, topic, count):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while count:
        message = consumer.poll(60)
        if message is None or message.error():
            raise SystemExit(f"{count} records missing: {message and message.error()}")
        told(message.key(), message.value(), message.headers())
        count -= 1
    consumer.close()


def stream(topic, partitions, name, rate):
    producer = Producer({
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "message.timeout.ms": 0,  # none
        "socket.timeout.ms": 5_000,
        "request.timeout.ms": 4_000,
        "queue.buffering.max.messages": 20,
        "linger.ms": 2,
    })
    running, failures = True, []

    def stop(*_):
        nonlocal running
        running = False

    def delivered(error, message):
        if error is not None:
            failures.append(error)
        else:
            printed(value=message.value().decode(), partition=message.partition(), offset=message.offset())

    signal.signal(signal.SIGTERM, stop)
    n = 0
    while running and not failures:
        p = n % partitions
        try:
            producer.produce(topic, partition=p, value=f"{name}/{p}/{n // partitions}", on_delivery=delivered)
            n += 1
        except BufferError:
            pass  # as many wait as may
        producer.poll(0)
        time.sleep(1 / rate)
    while producer.flush(10) and not failures:
        pass
    if failures:
        raise SystemExit(f"not delivered: {failures}")


main(create, produce, consume, write, read, stream)
