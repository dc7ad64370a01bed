package config

import "strings"

// Environ is what the process's environment says, by the rules of the apache/kafka image.
type Environ struct {
	ClusterID  string // CLUSTER_ID
	Properties []Property
	variables  []string // the variable of each property
}

// passedOver are variables of Kafka's scripts, image and JVM. Their like (…_OPTS, …_JMX_…, …_LOG4J_…) are found by passOver.
var passedOver = map[string]bool{
	"KAFKA_VERSION": true, "KAFKA_HOME": true, "KAFKA_DEBUG": true, "KAFKA_HEAP_OPT": true, "KAFKA_BASE_DIR": true,
	"KAFKA_ENABLE_CDS": true, "KAFKA_MODE": true,
}

// ParseEnviron takes the variables that configure a broker out of an environment of NAME=value items. KAFKA_A_B is a.b; three
// underscores are a dash and two are one underscore.
func ParseEnviron(environ []string) Environ {
	var env Environ
	for _, item := range environ {
		variable, val, _ := strings.Cut(item, "=")
		if variable == "CLUSTER_ID" {
			env.ClusterID = val
			continue
		}
		name, ok := strings.CutPrefix(variable, "KAFKA_")
		if !ok || name == "" || passOver(variable, val) {
			continue
		}
		name = strings.ReplaceAll(strings.ToLower(name), "_", ".")
		name = strings.ReplaceAll(name, "...", "-")
		name = strings.ReplaceAll(name, "..", "_")
		env.Properties = append(env.Properties, Property{Name: name, Value: val})
		env.variables = append(env.variables, variable)
	}
	return env
}

// passOver tells whether a variable is for the JVM, for logging, for Kafka's scripts, or was put there by Kubernetes for a
// service that is called kafka.
func passOver(variable, val string) bool {
	if passedOver[variable] || strings.HasSuffix(variable, "_OPTS") {
		return true
	}
	for _, part := range []string{"_JMX_", "_LOG4J_", "_JVM_", "_GC_LOG_"} {
		if strings.Contains(variable, part) {
			return true
		}
	}
	return strings.HasPrefix(variable, "KAFKA_SERVICE_") ||
		strings.HasPrefix(variable, "KAFKA_PORT") && (strings.HasPrefix(val, "tcp://") || strings.Contains(variable, "_TCP"))
}
