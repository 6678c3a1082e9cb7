"""Liveness probe of a training pod: `python3 -m trainer.heartbeat`; status 1 when a rank is stuck, else 0.

It imports no framework: a kubelet runs it every minute next to the training.
"""

from __future__ import annotations

from trainer.pod_modules.athanor_heartbeat import main

if __name__ == "__main__":
    main()
