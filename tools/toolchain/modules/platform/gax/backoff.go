// Package gax is what Go CDK uses of the module of that name: pauses between attempts. The rest of that module brings
// Google's API library, 385 MB for one type of error.
package gax

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is a growing series of pauses, each drawn evenly from zero to a bound, so that clients spread out.
// https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/ ("full jitter")
type Backoff struct {
	// Initial bounds the first pause; 1 s if zero.
	Initial time.Duration
	// Max bounds every pause; 30 s if zero.
	Max time.Duration
	// Multiplier is what the bound grows by from pause to pause; 2 if it is below 1.
	Multiplier float64

	bound time.Duration
}

// Pause returns the next pause.
func (b *Backoff) Pause() time.Duration {
	limit := orElse(b.Max, 30*time.Second)
	if b.bound == 0 {
		b.bound = min(orElse(b.Initial, time.Second), limit)
	}
	pause := 1 + rand.N(b.bound)
	growth := b.Multiplier
	if growth < 1 {
		growth = 2
	}
	b.bound = min(time.Duration(float64(b.bound)*growth), limit)
	return pause
}

// Sleep waits for a time, or until the context is done, whose error it then returns.
func Sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func orElse(value, other time.Duration) time.Duration {
	if value == 0 {
		return other
	}
	return value
}
