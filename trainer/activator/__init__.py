"""The activator: starts services that scaled to zero when a request comes, and stops idle ones.

A proxy asks `/hold/<service>` before it forwards a request, and forwards it when the answer is 200 (Envoy, "External
Authorization", HTTP service). It runs in the platform's gateway; infra/gateway/activator.py declares it.
"""
