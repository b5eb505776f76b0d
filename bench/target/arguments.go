package target

// SetLoadArgs replaces the arguments that every later `tidemark load` gets besides its own: what they name, such as the
// address of the target's metrics, changes when the target is started anew.
func (t *Target) SetLoadArgs(args []string) { t.options.LoadArgs = args }
