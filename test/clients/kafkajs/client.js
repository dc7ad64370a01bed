// kafkajs as its users write it, driven by the client tests; see ../python/client.py for the commands.
const { readFileSync } = require('node:fs')
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const LZ4 = require('@2l/kafkajs-lz4')
const { ZstdCodec } = require('zstd-codec')

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = new LZ4().codec
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => zstd((z) => z.compress(encoder.buffer, 3)),
  decompress: async (buffer) => zstd((z) => z.decompress(buffer)),
})

function zstd (work) {
  return new Promise((resolve, reject) => ZstdCodec.run((codec) => {
    try { resolve(Buffer.from(work(new codec.Simple()))) } catch (error) { reject(error) }
  }))
}

const codecs = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

const kafka = new Kafka({ clientId: 'client-test', brokers: process.env.BOOTSTRAP.split(','), logLevel: logLevel.ERROR, connectionTimeout: 10000 })
const print = (line) => process.stdout.write(JSON.stringify(line) + '\n')

async function create (topic, partitions) {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: Number(partitions) }] })
  await admin.disconnect()
}

async function produce (topic, codec, first, count, keys) {
  const producer = kafka.producer({ allowAutoTopicCreation: false })
  await producer.connect()
  for (let i = Number(first); i < Number(first) + Number(count); i++) {
    const key = Number(keys) > 0 ? `key-${i % Number(keys)}` : null
    const [sent] = await producer.send({ topic, compression: codecs[codec], acks: -1, messages: [{ key, value: `value-${i}` }] })
    print({ key, partition: sent.partition, offset: Number(sent.baseOffset) })
  }
  await producer.disconnect()
}

async function consume (groupId, topic, count) {
  // Short where members are to be replaced, long where one member reads alone and must not be put out.
  const consumer = kafka.consumer({ groupId, sessionTimeout: Number(count) > 0 ? 45000 : 6000, heartbeatInterval: 500 })
  let seen = 0
  let stop
  const stopped = new Promise((resolve) => { stop = resolve })
  process.on('SIGTERM', () => stop())
  consumer.on(consumer.events.GROUP_JOIN, (event) => print({ assigned: event.payload.memberAssignment[topic] || [] }))
  consumer.on(consumer.events.CRASH, ({ payload }) => { // it starts again by itself after what can be tried again
    console.error(payload.error)
    if (!payload.restart) process.exit(1)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      print({ key: message.key && message.key.toString(), value: message.value.toString(), partition, offset: Number(message.offset) })
      seen++
      if (Number(count) > 0 && seen >= Number(count)) stop()
    },
  })
  await stopped
  await consumer.disconnect()
}

const bytes = (token) => token === '-' ? null : Buffer.from(token.slice(1), 'base64')
const token = (bytes) => bytes === null ? '-' : ':' + Buffer.from(bytes).toString('base64')

async function write (topic, file, names) {
  const producer = kafka.producer()
  await producer.connect()
  for (const name of names.split(',')) {
    for (const line of readFileSync(file, 'utf8').trimEnd().split('\n')) {
      const [key, value, ...rest] = line.split(' ').map(bytes)
      const headers = {}
      for (let i = 0; i < rest.length; i += 2) (headers[rest[i]] ??= []).push(rest[i + 1])
      await producer.send({ topic, compression: codecs[name], messages: [{ key, value, headers }] })
    }
  }
  await producer.disconnect()
}

async function read (groupId, topic, count) {
  const consumer = kafka.consumer({ groupId })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  let seen = 0
  await new Promise((resolve, reject) => consumer.run({
    eachMessage: async ({ message }) => {
      const tokens = [message.key, message.value]
      for (const [name, content] of Object.entries(message.headers)) {
        for (const one of [content].flat()) tokens.push(name, one)
      }
      process.stdout.write(tokens.map(token).join(' ') + '\n')
      if (++seen >= Number(count)) resolve()
    },
  }).catch(reject))
  await consumer.disconnect()
}

async function stream (topic, partitions, name, rate) {
  const patient = new Kafka({
    clientId: 'client-test',
    brokers: process.env.BOOTSTRAP.split(','),
    logLevel: logLevel.NOTHING,
    requestTimeout: 5000,
    retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 1e6 },
  })
  const producer = patient.producer({ allowAutoTopicCreation: false, idempotent: true })
  let running = true
  process.on('SIGTERM', () => { running = false })
  await producer.connect()
  await Promise.all(Array.from({ length: Number(partitions) }, async (_, partition) => {
    for (let n = 0; running; n++) {
      const value = `${name}/${partition}/${n}`
      const [sent] = await producer.send({ topic, acks: -1, timeout: 4000, messages: [{ partition, value }] })
      print({ value, partition: sent.partition, offset: Number(sent.baseOffset) })
      await new Promise((resolve) => setTimeout(resolve, 1000 * partitions / rate))
    }
  }))
  await producer.disconnect()
}

const [command, ...args] = process.argv.slice(2)
const run = { create, produce, consume, write, read, stream }[command]
run(...args).then(() => process.stdout.write('', () => process.exit(0)), (error) => { console.error(error); process.exit(1) })
