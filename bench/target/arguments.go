package target

import "context"

// SetLoadArgs replaces the arguments that every later `tidemark load` gets besides its own: what they name, such as the
// address of the target's metrics, changes when the target is started anew.
func (t *Target) SetLoadArgs(args []string) { t.options.LoadArgs = args }

// Use starts the embedded broker anew as another binary, which every later load process is too. It does nothing where that
// binary runs, and for other targets.
func (t *Target) Use(ctx context.Context, bin string) error {
	if t.broker == nil || t.options.Bin == bin {
		return nil
	}
	if err := t.broker.Stop(); err != nil {
		return err
	}
	t.broker, t.options.Bin = nil, bin
	return t.startBroker(ctx)
}
