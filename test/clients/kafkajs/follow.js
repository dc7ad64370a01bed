// A read_committed reader with kafkajs; see ../python/follow.py for what it does and prints.
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const kafka = new Kafka({
  clientId: 'follow',
  brokers: process.env.BOOTSTRAP.split(','),
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 1000 },
})
const groupId = `follow-${process.pid}-${Date.now()}`
const print = (line) => process.stdout.write(JSON.stringify(line) + '\n')

// Runs until the consumer ends for a reason after which it does not start again by itself, as when it can't find its coordinator.
async function follow (topics) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 10000, heartbeatInterval: 1000, readUncommitted: false, maxWaitTimeInMs: 500 })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => print({ assigned: Object.values(payload.memberAssignment).flat() }))
  const crashed = new Promise((resolve) => consumer.on(consumer.events.CRASH, ({ payload }) => {
    console.error(String(payload.error))
    if (!payload.restart) resolve()
  }))
  await consumer.connect()
  await consumer.subscribe({ topics, fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ topic, partition, message }) => {
      print({ topic, partition, offset: Number(message.offset), key: message.key.toString(), value: message.value.toString() })
    },
  })
  await crashed
  await consumer.disconnect()
}

async function forever (topics) {
  for (;;) await follow(topics).catch((error) => console.error(String(error)))
}

forever(process.argv[2].split(','))
