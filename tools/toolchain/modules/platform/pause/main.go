// pause keeps a pod's sandbox alive: it waits for a signal and reaps the orphans that it inherits as PID 1.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Set by the linker.
var version string

func main() {
	if len(os.Args) == 2 && os.Args[1] == "-v" {
		fmt.Println("pause", version)
		return
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}
