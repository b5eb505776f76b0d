#include "textflag.h"

// func Nanos() int64
TEXT ·Nanos(SB), NOSPLIT, $0-8
	JMP runtime·nanotime(SB)
