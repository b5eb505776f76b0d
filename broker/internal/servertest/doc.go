// Package servertest drives the broker's request path from outside: real sockets in front, real files behind, and an image
// of the cluster that the tests make in place of the controller. It holds the tests of server, the produce and fetch side
// of api, replica and logdir together, and the benchmark that weighs them against a bare loop.
package servertest
