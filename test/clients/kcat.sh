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
write) # with -Z an empty key or value is null
  topic=$1 file=$2 codecs=$3
  text() { [[ $1 = - ]] || base64 -d <<< "${1#:}"; }
  for codec in ${codecs//,/ }; do
    while read -r key value headers; do
      args=()
      for word in $headers; do
        if [[ -v name ]]; then args+=(-H "$name=$(text "$word")"); unset name; else name=$(text "$word"); fi
      done
      { text "$key"; echo -n $'\t'; text "$value"; echo; } | kcat -b "$BOOTSTRAP" -P -t "$topic" -K $'\t' -Z -z "$codec" "${args[@]}"
    done < "$file"
  done
  ;;
read)
  group=$1 topic=$2 count=$3
  kcat -b "$BOOTSTRAP" -c "$count" -u -q -J -X auto.offset.reset=earliest -G "$group" "$topic" | python3 -c '
import base64, json, sys
for line in sys.stdin:
    r = json.loads(line)
    words = [r["key"], r["payload"], *r.get("headers", [])]
    print(" ".join("-" if w is None else ":" + base64.b64encode(w.encode()).decode() for w in words))'
  ;;
esac
