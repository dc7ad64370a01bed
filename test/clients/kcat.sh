#!/usr/bin/env bash
# kcat (librdkafka) with the commands of the client tests; see clients/python/client.py. kcat reports no offsets on produce.
set -euo pipefail
command=$1; shift
case $command in
create) # kcat has no admin: the first produce creates the topic, so only ask for its metadata
  kcat -b "$BOOTSTRAP" -L -t "$1" -J > /dev/null
  ;;
produce)
  topic=$1 codec=$2 first=$3 count=$4 keys=$5
  for ((i = first; i < first + count; i++)); do
    if ((keys > 0)); then echo "key-$((i % keys)):value-$i"; else echo ":value-$i"; fi
  done | kcat -b "$BOOTSTRAP" -P -t "$topic" -K : -Z -z "$codec" -X partitioner=murmur2_random -X acks=all
  ;;
consume)
  group=$1 topic=$2 count=$3
  args=(); ((count > 0)) && args=(-c "$count")
  exec kcat -b "$BOOTSTRAP" "${args[@]}" -u -q -X auto.offset.reset=earliest -E -X session.timeout.ms=$((count > 0 ? 45000 : 6000)) -X heartbeat.interval.ms=500 \
    -f '{"key":"%k","value":"%s","partition":%p,"offset":%o}\n' -G "$group" "$topic"
  ;;
esac
