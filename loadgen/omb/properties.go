package omb

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark/tidemark/loadgen/security"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// properties reads a block of properties; their lines are those of the file.
func (r *reading) properties(field, text string) ([]security.Property, error) {
	if text == "" {
		return nil, nil
	}
	first := r.places[field].Line
	lines := strings.Split(string(r.text), "\n")
	if first >= 1 && first <= len(lines) {
		if _, after, _ := strings.Cut(lines[first-1], ":"); strings.HasPrefix(strings.TrimSpace(after), "|") || strings.HasPrefix(strings.TrimSpace(after), ">") {
			first++
		}
	}
	return security.ParseProperties(r.file, first, []byte(text))
}

func (r *reading) failAt(p security.Property, format string, a ...any) error {
	return &workload.Problem{File: r.file, Place: workload.Place{Line: p.Line, Column: 1}, Field: p.Name, Text: p.Name + ": " + fmt.Sprintf(format, a...)}
}

func (r *reading) noteAt(p security.Property, format string, a ...any) {
	r.out.Notes = append(r.out.Notes, r.failAt(p, format, a...).Error())
}

// topicConfig takes the topic's properties as they are: the cluster knows which there are.
func (r *reading) topicConfig(text string) error {
	ps, err := r.properties("topicConfig", text)
	if err != nil || len(ps) == 0 {
		return err
	}
	r.out.Spec.TopicConfigs = map[string]string{}
	for _, p := range ps {
		r.out.Spec.TopicConfigs[p.Name] = p.Value
	}
	return nil
}

// commonConfig takes bootstrap servers and security; what else is there holds for producers and consumers.
func (r *reading) commonConfig(text string) error {
	ps, err := r.properties("commonConfig", text)
	if err != nil {
		return err
	}
	var secure, rest []security.Property
	for _, p := range ps {
		switch {
		case p.Name == "bootstrap.servers":
			for a := range strings.SplitSeq(p.Value, ",") {
				if a = strings.TrimSpace(a); a != "" {
					r.out.Bootstrap = append(r.out.Bootstrap, a)
				}
			}
		case security.Honoured(p.Name):
			secure = append(secure, p)
		default:
			rest = append(rest, p)
		}
	}
	if len(secure) > 0 {
		if r.out.Security, err = security.New(r.file, secure); err != nil {
			return err
		}
	}
	return r.clientProperties(rest, "")
}

func (r *reading) clientConfig(field, text string) error {
	ps, err := r.properties(field, text)
	if err != nil {
		return err
	}
	return r.clientProperties(ps, field)
}

// clientProperties sets what producers and consumers are told. field is producerConfig, consumerConfig or "" for both.
func (r *reading) clientProperties(ps []security.Property, field string) error {
	for _, p := range ps {
		flag := security.WorkloadFlag(p.Name)
		switch {
		case security.Honoured(p.Name):
			return r.failAt(p, "belongs into commonConfig: producers and consumers connect alike here")
		case p.Name == "bootstrap.servers":
			return r.failAt(p, "belongs into commonConfig")
		case flag == "" && !slices.Contains(security.Names(), p.Name):
			near := ""
			if n := workload.Nearest(p.Name, security.Names()); n != "" {
				near = fmt.Sprintf(" (did you mean %q?)", n)
			}
			return r.failAt(p, "unknown property%s", near)
		case flag == "" || flag == "partitioner":
			r.noteAt(p, "has no meaning here")
		default:
			if err := r.set(p, flag, field); err != nil {
				return err
			}
		}
	}
	return nil
}

// timed and sized are settings whose property is a bare number of milliseconds or bytes.
var (
	timed = []string{"linger", "delivery-timeout", "request-timeout", "retry-backoff", "commit-interval", "session-timeout", "fetch-max-wait"}
	sized = []string{"batch-size", "buffer", "request-max", "fetch-min", "fetch-max", "fetch-partition-max"}
)

// set gives the workload's setting the property's value.
func (r *reading) set(p security.Property, flag, field string) error {
	value := strings.TrimSpace(p.Value)
	switch {
	case slices.Contains(timed, flag):
		ms, err := strconv.ParseInt(value, 10, 64)
		if err != nil || ms < 0 || ms > int64(time.Duration(1<<63-1)/time.Millisecond) {
			return r.failAt(p, "%q is not a number of milliseconds", value)
		}
		value = strconv.FormatInt(ms, 10) + "ms"
	case slices.Contains(sized, flag):
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return r.failAt(p, "%q is not a number of bytes", value)
		}
		value += "B"
	case flag == "acks" && value == "-1":
		value = workload.AcksAll
	case flag == "commit":
		switch value {
		case "true":
			value = workload.CommitAuto
		case "false":
			value = workload.CommitAsync // as OpenMessaging Benchmark's consumer does after each poll
		default:
			return r.failAt(p, "%q is neither true nor false", value)
		}
	case flag == "assignor":
		return r.assignor(p, value)
	case flag == "retry-backoff" && field == "consumerConfig", flag == "request-timeout" && field == "consumerConfig":
		r.noteAt(p, "has no meaning here for consumers")
		return nil
	}
	if err := r.out.Spec.Set(flag, value); err != nil {
		return r.failAt(p, "%s", strings.TrimPrefix(err.Error(), flag+": "))
	}
	return nil
}

// assignors are Kafka's classes by the name of their strategy.
var assignors = map[string]string{"RangeAssignor": "range", "RoundRobinAssignor": "roundrobin", "StickyAssignor": "sticky", "CooperativeStickyAssignor": "cooperative-sticky"}

func (r *reading) assignor(p security.Property, value string) error {
	first, _, more := strings.Cut(value, ",")
	class := first[strings.LastIndexByte(first, '.')+1:]
	name, ok := assignors[strings.TrimSpace(class)]
	if !ok {
		return r.failAt(p, "the class is none of Kafka's RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor")
	}
	if more {
		r.noteAt(p, "only the first one is offered")
	}
	return r.out.Spec.Set("assignor", name)
}
