package config

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// Listener is one entry of listeners or advertised.listeners.
type Listener struct {
	Name     string // PLAINTEXT, or a name of listener.security.protocol.map
	Host     string // "" binds all interfaces
	Port     int32  // 0 picks a free port
	Protocol string // PLAINTEXT: nothing else is served yet
}

// ClientListeners is what to bind: listeners in the order given, without the controllers'.
func (b *Broker) ClientListeners() []Listener { return b.listeners }

// Advertised is what to tell clients of the named listener. Host "" and port 0 stand for the bound ones.
func (b *Broker) Advertised(listener string) (Listener, bool) {
	for _, l := range b.advertised {
		if l.Name == listener {
			return l, true
		}
	}
	return Listener{}, false
}

// bindListeners reads listeners, advertised.listeners and the names that refer to them.
func (b *Broker) bindListeners() error {
	protocols, err := b.protocols()
	if err != nil {
		return err
	}
	if b.listeners, err = b.readListeners("listeners", b.Listeners, protocols); err != nil {
		return err
	}
	if len(b.listeners) == 0 {
		return wrong("listeners", "names no listener for clients: give one, such as PLAINTEXT://127.0.0.1:9092")
	}
	told, err := b.readListeners("advertised.listeners", b.AdvertisedListeners, protocols)
	if err != nil {
		return err
	}
	for _, l := range told {
		if l.Host == "0.0.0.0" || l.Host == "::" {
			return wrong("advertised.listeners", "%s://%s:%d: no client can connect to the address of all interfaces: "+
				"give the host name that clients reach", l.Name, l.Host, l.Port)
		}
		if !slices.ContainsFunc(b.listeners, func(o Listener) bool { return o.Name == l.Name }) {
			return wrong("advertised.listeners", "%s is not among listeners", l.Name)
		}
	}
	b.advertised = told
	if len(b.AdvertisedListeners) == 0 {
		b.advertised = slices.Clone(b.listeners)
		for i := range b.advertised {
			if h := b.advertised[i].Host; h == "0.0.0.0" || h == "::" {
				b.advertised[i].Host = ""
			}
		}
	}
	if n := b.InterBrokerListenerName; n != "" {
		if _, ok := b.Advertised(n); !ok {
			return wrong("inter.broker.listener.name", "%s is not among the listeners told to clients", n)
		}
	}
	return nil
}

// protocols reads listener.security.protocol.map.
func (b *Broker) protocols() (map[string]string, error) {
	const name = "listener.security.protocol.map"
	out := map[string]string{}
	for _, entry := range splitList(b.ListenerSecurityProtocolMap) {
		listener, protocol, ok := strings.Cut(entry, ":")
		listener, protocol = strings.ToUpper(strings.TrimSpace(listener)), strings.ToUpper(strings.TrimSpace(protocol))
		if !ok || listener == "" {
			return nil, wrong(name, "%q: want NAME:PROTOCOL", entry)
		}
		if !slices.Contains([]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, protocol) {
			return nil, wrong(name, "%q: unknown protocol %s", entry, protocol)
		}
		if _, twice := out[listener]; twice {
			return nil, wrong(name, "%s is given twice", listener)
		}
		out[listener] = protocol
	}
	return out, nil
}

// readListeners reads entries NAME://host:port and leaves the controllers' out.
func (b *Broker) readListeners(property string, entries []string, protocols map[string]string) ([]Listener, error) {
	var out []Listener
	for _, entry := range entries {
		name, address, ok := strings.Cut(entry, "://")
		name = strings.ToUpper(name)
		if !ok || name == "" {
			return nil, wrong(property, "%q: want NAME://host:port", entry)
		}
		host, portText, err := net.SplitHostPort(address)
		port, portErr := strconv.ParseUint(portText, 10, 16)
		if err != nil || portErr != nil {
			return nil, wrong(property, "%q: want NAME://host:port", entry)
		}
		if slices.Contains(b.ControllerListenerNames, name) {
			continue
		}
		protocol, ok := protocols[name]
		if !ok {
			return nil, wrong(property, "%q: listener.security.protocol.map gives %s no protocol", entry, name)
		}
		if protocol != "PLAINTEXT" {
			return nil, wrong(property, "%q: %s listeners are not served yet: use PLAINTEXT, and keep the port from "+
				"those who should not reach it", entry, protocol)
		}
		for _, o := range out {
			if o.Name == name {
				return nil, wrong(property, "%q: %s is given twice", entry, name)
			}
			if property == "listeners" && port != 0 && o.Port == int32(port) && o.Host == host {
				return nil, wrong(property, "%q: port %d is given twice", entry, port)
			}
		}
		out = append(out, Listener{Name: name, Host: host, Port: int32(port), Protocol: protocol})
	}
	return out, nil
}

// warnControllerListener tells that a listed controller listener stays closed.
func (g *given) warnControllerListener(b *Broker) {
	for _, name := range b.ControllerListenerNames {
		for _, entry := range b.Listeners {
			if strings.HasPrefix(strings.ToUpper(entry), name+"://") {
				g.warn(g.where["listeners"], "listeners", name+" is not opened: a quorum of one node needs no network")
			}
		}
	}
}
