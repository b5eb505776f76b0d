package buf

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Vector is the list that writev takes, kept from call to call: the one in x/sys/unix makes a new one each time, 32 KiB
// and eight allocations for 1,024 pieces. The zero value is ready. It belongs to one goroutine at a time.
type Vector struct {
	list []unix.Iovec
}

// Write writes the pieces, at most 1,024 of them, to a file descriptor with one writev, and returns how many bytes it took.
func (v *Vector) Write(fd int, pieces [][]byte) (int, error) {
	v.list = v.list[:0]
	for _, p := range pieces {
		if len(p) > 0 {
			v.list = append(v.list, unix.Iovec{Base: unsafe.SliceData(p)})
			v.list[len(v.list)-1].SetLen(len(p))
		}
	}
	if len(v.list) == 0 {
		return 0, nil
	}
	// Valid by rule 4 of unsafe.Pointer: the conversion stands in the call's own argument list, so the list stays where it
	// is; its pointers keep the pieces alive.
	n, _, errno := unix.Syscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(v.list))), uintptr(len(v.list)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
