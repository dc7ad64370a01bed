// Command golang runs one of Go's Kafka clients as its users write it, for the client tests:
//
//	golang LIBRARY create TOPIC PARTITIONS
//	golang LIBRARY produce TOPIC CODEC FIRST COUNT KEYS
//	golang LIBRARY consume GROUP TOPIC COUNT        (0: until SIGTERM)
//	golang LIBRARY write TOPIC FILE CODEC,CODEC...
//	golang LIBRARY read GROUP TOPIC COUNT
//	golang franz copy INPUT OUTPUT GROUP TRANSACTIONAL_ID
//	golang franz follow TOPIC,TOPIC...
//	golang franz stream TOPIC PARTITIONS NAME RATE
//
// LIBRARY is franz, sarama or kafkago. What the commands do and print stands in ../python/client.py, copy_job.py and follow.py.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// client is what each library's file provides.
type client interface {
	create(ctx context.Context, topic string, partitions int) error
	produce(ctx context.Context, topic, codec string, records []keyValue) error
	consume(ctx context.Context, group, topic string, count int) error
	write(ctx context.Context, topic, codec string, records []keyValue) error
	read(ctx context.Context, group, topic string, count int) error
}

type keyValue struct {
	key, value []byte
	headers    []header
}

type header struct {
	name  string
	value []byte
}

type line struct {
	Key       *string `json:"key,omitempty"`
	Value     *string `json:"value,omitempty"`
	Partition int     `json:"partition"`
	Offset    int64   `json:"offset"`
}

// sessionTimeout is short where members are to be replaced, and Kafka's default where one member reads alone and must not be put
// out.
func sessionTimeout(count int) time.Duration {
	if count > 0 {
		return 45 * time.Second
	}
	return 6 * time.Second
}

var printing sync.Mutex

func printRecord(key, value []byte, partition int, offset int64) {
	out := line{Partition: partition, Offset: offset}
	if key != nil {
		text := string(key)
		out.Key = &text
	}
	if value != nil {
		text := string(value)
		out.Value = &text
	}
	printLine(out)
}

func printAssigned(partitions []int) {
	printLine(map[string][]int{"assigned": partitions})
}

func printLine(value any) {
	printing.Lock()
	defer printing.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(value); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	bootstrap := strings.Split(os.Getenv("BOOTSTRAP"), ",")
	clients := map[string]client{
		"franz":   franz{bootstrap},
		"sarama":  saramaClient{bootstrap},
		"kafkago": kafkaGo{bootstrap},
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	var err error
	switch args := os.Args[3:]; os.Args[2] {
	case "copy":
		err = copyWithFranz(ctx, bootstrap, args[0], args[1], args[2], args[3])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3) // to be started again
		}
	case "follow":
		err = followWithFranz(ctx, bootstrap, strings.Split(args[0], ","))
	case "stream":
		err = streamWithFranz(ctx, bootstrap, args[0], number(args[1]), args[2], number(args[3]))
	default:
		err = run(ctx, clients[os.Args[1]], os.Args[2], args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c client, command string, args []string) error {
	switch command {
	case "create":
		return c.create(ctx, args[0], number(args[1]))
	case "produce":
		first, count, keys := number(args[2]), number(args[3]), number(args[4])
		records := make([]keyValue, 0, count)
		for i := first; i < first+count; i++ {
			record := keyValue{value: fmt.Appendf(nil, "value-%d", i)}
			if keys > 0 {
				record.key = fmt.Appendf(nil, "key-%d", i%keys)
			}
			records = append(records, record)
		}
		return c.produce(ctx, args[0], args[1], records)
	case "consume":
		return c.consume(ctx, args[0], args[1], number(args[2]))
	case "write":
		content, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		var records []keyValue
		for line := range strings.Lines(string(content)) {
			records = append(records, parsed(strings.Fields(line)))
		}
		for codec := range strings.SplitSeq(args[2], ",") {
			if err := c.write(ctx, args[0], codec, records); err != nil {
				return err
			}
		}
		return nil
	case "read":
		return c.read(ctx, args[0], args[1], number(args[2]))
	}
	return fmt.Errorf("unknown command %s", command)
}

func parsed(words []string) keyValue {
	r := keyValue{key: bytesOf(words[0]), value: bytesOf(words[1])}
	for pair := range slices.Chunk(words[2:], 2) {
		r.headers = append(r.headers, header{string(bytesOf(pair[0])), bytesOf(pair[1])})
	}
	return r
}

func bytesOf(word string) []byte {
	if word == "-" {
		return nil
	}
	content, err := base64.StdEncoding.DecodeString(word[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return content
}

func word(content []byte) string {
	if content == nil {
		return "-"
	}
	return ":" + base64.StdEncoding.EncodeToString(content)
}

// tell prints a record that was read.
func (r keyValue) tell() {
	words := []string{word(r.key), word(r.value)}
	for _, h := range r.headers {
		words = append(words, word([]byte(h.name)), word(h.value))
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(strings.Join(words, " "))
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return n
}
