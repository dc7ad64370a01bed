// @platformatic/kafka as its users write it, driven by the client tests; see ../python/client.py for the commands.
import { readFileSync } from 'node:fs'
import { Admin, Consumer, Producer, compatibilityPartitioner } from '@platformatic/kafka'

const base = { clientId: 'client-test', bootstrapBrokers: process.env.BOOTSTRAP.split(',') }
const groupProtocol = process.env.GROUP_PROTOCOL || 'classic'
const print = (line) => process.stdout.write(JSON.stringify(line) + '\n')
const text = (bytes) => bytes === undefined || bytes === null ? null : bytes.toString()

async function create (topic, partitions) {
  const admin = new Admin(base)
  await admin.createTopics({ topics: [topic], partitions: Number(partitions), replicas: 1 })
  const { topics } = await admin.metadata({ topics: [topic] })
  if (topics.get(topic).partitionsCount !== Number(partitions)) throw new Error(`${topic} has ${topics.get(topic).partitionsCount} partitions`)
  await admin.close()
}

async function produce (topic, codec, first, count, keys) {
  const producer = new Producer({ ...base, idempotent: true, compression: codec, partitioner: compatibilityPartitioner })
  const messages = []
  for (let i = Number(first); i < Number(first) + Number(count); i++) {
    const key = Number(keys) > 0 ? `key-${i % Number(keys)}` : null
    messages.push({ topic, key: key && Buffer.from(key), value: Buffer.from(`value-${i}`) })
  }
  for (const message of messages) { // the result names a batch's first offset only
    const { offsets: [sent] } = await producer.send({ messages: [message] })
    print({ key: text(message.key), partition: sent.partition, offset: Number(sent.offset) })
  }
  await producer.close()
}

async function consume (groupId, topic, count) {
  // Short where members are to be replaced, long where one member reads alone and must not be put out.
  const session = groupProtocol === 'consumer'
    ? { groupProtocol }
    : { sessionTimeout: Number(count) > 0 ? 45000 : 6000, heartbeatInterval: 500, rebalanceTimeout: 60000 }
  const consumer = new Consumer({ ...base, ...session, groupId, retries: 60, retryDelay: 200 })
  const alone = Number(count) > 0
  let stopping = false
  let stream
  process.on('SIGTERM', () => { stopping = true; stream?.close() })
  const tell = () => print({ assigned: consumer.assignments?.find((a) => a.topic === topic)?.partitions ?? [] })
  consumer.on('consumer:group:join', tell)
  let seen = 0
  while (!stopping && (!alone || seen < Number(count))) {
    stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest', autocommit: false, maxWaitTime: 500 })
    try {
      for await (const message of stream) {
        print({ key: text(message.key), value: text(message.value), partition: message.partition, offset: Number(message.offset) })
        seen++
        await message.commit()
        if (alone && seen >= Number(count)) break
      }
    } catch (error) { // a commit amid a rebalance is refused; whoever owns the partition reads again what was not committed
      if (alone) throw error
      console.error(error)
    }
  }
  await consumer.close(true)
}

const bytes = (token) => token === '-' ? null : Buffer.from(token.slice(1), 'base64')
const token = (bytes) => bytes === null || bytes === undefined ? '-' : ':' + Buffer.from(bytes).toString('base64')

async function write (topic, file, codecs) {
  for (const compression of codecs.split(',')) {
    const producer = new Producer({ ...base, compression })
    for (const line of readFileSync(file, 'utf8').trimEnd().split('\n')) {
      const [key, value, ...rest] = line.split(' ').map(bytes)
      const headers = new Map()
      for (let i = 0; i < rest.length; i += 2) headers.set(rest[i], rest[i + 1])
      await producer.send({ messages: [{ topic, key, value, headers }] })
    }
    await producer.close()
  }
}

async function read (groupId, topic, count) {
  const consumer = new Consumer({ ...base, groupId })
  const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest' })
  let seen = 0
  for await (const { key, value, headers } of stream) {
    const tokens = [key, value]
    for (const [name, content] of headers) tokens.push(name, content)
    process.stdout.write(tokens.map(token).join(' ') + '\n')
    if (++seen >= Number(count)) break
  }
  await consumer.close(true)
}

const [command, ...args] = process.argv.slice(2)
await { create, produce, consume, write, read }[command](...args)
process.stdout.write('', () => process.exit(0))
