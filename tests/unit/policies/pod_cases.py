"""Cases of rules about pods, images and secrets."""

from __future__ import annotations

from typing import Any

from tests.unit.policies.case import UNKNOWN, Case, cloud, deployment, manifest, unknown_deployment, volcano_job

PEM = "-----BEGIN " + "PRIVATE KEY-----\nAAAA"
ACCESS_KEY = "LTAI" + "5tAbCdEfGhIjKlMn"
SPOT = cloud("cs/nodePool", nodePoolName="cheap", spotStrategy="SpotAsPriceGo")
ON_DEMAND = cloud("cs/nodePool", nodePoolName="steady", spotStrategy="NoSpot")
CLAIM = {"name": "out", "persistentVolumeClaim": {"claimName": "output"}}


def secured(**context: Any) -> dict[str, Any]:
    return {"securityContext": context}


def on_pool(pool: Any) -> dict[str, Any]:
    return {"nodeSelector": {"athanor.dev/pool": pool}}


SAFE_SYSCTL = {"name": "net.ipv4.ip_local_port_range", "value": "1024 65000"}
CODE = """
token = os.environ["HF_TOKEN"]
tokenizer.pad_token = tokenizer.eos_token
api_key = settings.api_key
self.password = password
secret = load(path)
"""
CASES = {
    "no-privileged-containers": Case(
        keeps=[deployment(secured(allowPrivilegeEscalation=False)), manifest("v1", "ConfigMap", data={})],
        breaks={
            "securityContext.privileged = True": deployment(secured(privileged=True, allowPrivilegeEscalation=False)),
            "allowPrivilegeEscalation = None": volcano_job(),
        },
        undecided=[unknown_deployment(), deployment(secured(privileged=UNKNOWN, allowPrivilegeEscalation=False))],
    ),
    "no-root-containers": Case(
        keeps=[
            deployment(secured(runAsUser=10001)),
            deployment(securityContext={"runAsNonRoot": True}),
            deployment(secured(runAsUser=1), securityContext={"runAsUser": 0}),
        ],
        breaks={
            "runAsUser = 0": deployment(secured(runAsUser=0), securityContext={"runAsNonRoot": True}),
            "runAsUser = 0:": deployment(securityContext={"runAsUser": 0}),
            "the image decides": volcano_job(),
        },
        undecided=[unknown_deployment(), deployment(secured(runAsUser=UNKNOWN))],
    ),
    "no-added-capabilities": Case(
        keeps=[deployment(secured(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}))],
        breaks={
            "add = 'SYS_ADMIN'": deployment(secured(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]})),
            "drop = ['NET_RAW']": deployment(secured(capabilities={"drop": ["NET_RAW"]})),
        },
        undecided=[unknown_deployment(), deployment(secured(capabilities={"drop": UNKNOWN}))],
    ),
    "no-host-namespaces": Case(
        keeps=[deployment(), deployment({"ports": [{"containerPort": 80}]}, hostNetwork=False)],
        breaks={
            "hostNetwork = True": deployment(hostNetwork=True),
            "hostPID = True": volcano_job(hostPID=True),
            "hostPort = 80": deployment({"ports": [{"containerPort": 80, "hostPort": 80}]}),
        },
        undecided=[unknown_deployment(), deployment(hostIPC=UNKNOWN)],
    ),
    "no-host-paths": Case(
        keeps=[
            deployment(volumes=[{"name": "a", "emptyDir": {}}, CLAIM]),
            manifest("core/v1", "PersistentVolume", spec={"hostPath": {"path": "/var/lib/athanor/data"}}),
            manifest("core/v1", "PersistentVolume", spec={"csi": {}}),
        ],
        breaks={
            "volume a: hostPath = '/etc'": deployment(volumes=[{"name": "a", "hostPath": {"path": "/etc"}}]),
            **{
                f"hostPath = {path!r}": manifest("core/v1", "PersistentVolume", spec={"hostPath": {"path": path}})
                for path in ("/", "/etc", "/var/../root/.ssh", "/var/lib/kubelet/pods", "/var/run")
            },
        },
        undecided=[unknown_deployment(), deployment(volumes=UNKNOWN)],
    ),
    "no-default-service-account-token": Case(
        keeps=[deployment(automountServiceAccountToken=False), deployment(serviceAccountName="trainer")],
        breaks={
            "automountServiceAccountToken = None": deployment(),
            "automountServiceAccountToken = True": volcano_job(automountServiceAccountToken=True),
        },
        undecided=[unknown_deployment(), deployment(serviceAccountName=UNKNOWN)],
    ),
    "no-unconfined-containers": Case(
        keeps=[
            deployment(),
            deployment(securityContext={"seccompProfile": {"type": "RuntimeDefault"}}),
            deployment(secured(procMount="Default"), securityContext={"sysctls": [SAFE_SYSCTL]}),
        ],
        breaks={
            "securityContext.procMount = 'Unmasked'": deployment(secured(procMount="Unmasked")),
            "securityContext.sysctls = 'kernel.msgmax'": deployment(
                securityContext={"sysctls": [SAFE_SYSCTL, {"name": "kernel.msgmax", "value": "1"}]}
            ),
            "container main: securityContext.seccompProfile.type = 'Unconfined'": deployment(
                secured(seccompProfile={"type": "Unconfined"}),
                securityContext={"seccompProfile": {"type": "RuntimeDefault"}},
            ),
        },
        undecided=[unknown_deployment(), deployment(securityContext={"appArmorProfile": UNKNOWN})],
    ),
    "resource-requests": Case(
        keeps=[deployment({"resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}})],
        breaks={
            "resources.requests.cpu = None": deployment({"resources": {"requests": {"memory": "1Gi"}}}),
            "resources.requests.memory = None": volcano_job(),
        },
        undecided=[unknown_deployment(), deployment({"resources": UNKNOWN})],
    ),
    "memory-limits": Case(
        keeps=[deployment({"resources": {"limits": {"memory": "1Gi"}}})],
        breaks={"resources.limits.memory = None": deployment({"resources": {"requests": {"memory": "1Gi"}}})},
        undecided=[unknown_deployment(), deployment({"resources": {"limits": UNKNOWN}})],
    ),
    "spot-jobs-keep-checkpoints": Case(
        keeps=[
            [SPOT, volcano_job(**on_pool("cheap"), volumes=[CLAIM])],
            [ON_DEMAND, volcano_job(**on_pool("steady"))],
            [SPOT, deployment(**on_pool("cheap"))],
        ],
        breaks={"pool cheap consists of spot nodes": [SPOT, volcano_job(**on_pool("cheap"))]},
        undecided=[[SPOT, volcano_job(**on_pool(UNKNOWN))]],
    ),
    "images-pinned": Case(
        keeps=[
            deployment({"image": "registry.example:5000/team/app:1.2"}),
            deployment({"image": f"app@sha256:{'0' * 64}"}),
        ],
        breaks={
            "image = 'app'": deployment({"image": "app"}),
            "image = 'registry.example:5000/app'": volcano_job(containers=[{"image": "registry.example:5000/app"}]),
            "image = 'app:latest'": deployment(initContainers=[{"name": "first", "image": "app:latest"}]),
            "is not a valid image reference": deployment({"image": "App:1"}),
        },
        undecided=[unknown_deployment(), deployment({"image": UNKNOWN})],
    ),
    "images-from-registry": Case(
        config={"registries": ["registry.example/team"]},
        keeps=[deployment({"image": "registry.example/team/app:1"})],
        breaks={
            "image = 'registry.example/teams/app:1'": deployment({"image": "registry.example/teams/app:1"}),
            "only images of registry.example/team are allowed": volcano_job(containers=[{"image": "app:1"}]),
        },
        undecided=[unknown_deployment(), deployment({"image": UNKNOWN})],
    ),
    "no-opaque-releases": Case(
        keeps=[deployment()],
        breaks={"renders its pods where no rule sees them": manifest("helm.sh/v3", "Release")},
        undecided=[],
    ),
    "no-secrets-in-config-maps": Case(
        keeps=[
            manifest("core/v1", "ConfigMap", data={"app.yaml": "token_file: /secrets/token", "tokenizer": "bpe"}),
            manifest(
                "core/v1", "ConfigMap", data={"app.yaml": "password: ${DB_PASSWORD}\nkey: /etc/keys/id\ntoken:\n"}
            ),
            manifest("core/v1", "ConfigMap", data={"train.py": CODE}),
            manifest("core/v1", "Secret", stringData={"password": "secret"}),
        ],
        breaks={
            "data[db-password] = '…'": manifest("core/v1", "ConfigMap", data={"db-password": "secret"}),
            "data[app.ini] = '…'": manifest(
                "core/v1", "ConfigMap", data={"app.ini": "[db]\nuser = a\npassword = hunter2"}
            ),
            "data[app.yaml] = '…'": manifest("core/v1", "ConfigMap", data={"app.yaml": 'db:\n  password: "correct"\n'}),
            "data[app.json] = '…'": manifest("core/v1", "ConfigMap", data={"app.json": '{\n "api_key": "abc-1"\n}'}),
            "data[tls] = '…'": manifest("core/v1", "ConfigMap", data={"tls": PEM}),
            "data[settings] = '…'": manifest("core/v1", "ConfigMap", data={"settings": f"key: {ACCESS_KEY}"}),
        },
        undecided=[manifest("core/v1", "ConfigMap", data=UNKNOWN)],
    ),
    "no-secrets-in-environment": Case(
        keeps=[
            deployment({"env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}]}),
            deployment({"env": [{"name": "TOKEN_FILE", "value": "/secrets/token"}]}),
            deployment({"env": [{"name": "MAX_TOKENS", "value": "4096"}]}),
            *(
                deployment({"env": [{"name": name, "value": value}]})
                for name, value in (
                    *(
                        ("EOS_TOKEN", "</s>"),
                        ("PAD_TOKEN", "pad"),
                        ("eos_token", "<|endoftext|>"),
                        ("UNK_TOKEN", "[UNK]"),
                    ),
                    *(("GITHUB_TOKEN", "$(HF_TOKEN)"), ("SSH_PRIVATE_KEY", "/etc/keys/id"), ("USE_TOKEN", "true")),
                    *(("API_TOKEN", ""), ("PWD", "/work"), ("BYPASS", "1"), ("SECRET", "./secrets/one")),
                )
            ),
        ],
        breaks={
            **{
                f"env[{name}] = '…'": deployment({"env": [{"name": name, "value": "hunter2"}]})
                for name in ("DB_PASS", "MYSQL_PWD", "PASSPHRASE", "db.password", "AWS_SECRET_ACCESS_KEY")
            },
            "env[HF_TOKEN] = '…'": deployment({"env": [{"name": "HF_TOKEN", "value": "x"}]}),
            "env[PROXY] = '…'": volcano_job(
                containers=[{"name": "w", "env": [{"name": "PROXY", "value": "http://user:word@proxy:3128"}]}]
            ),
        },
        undecided=[unknown_deployment(), deployment({"env": [{"name": "A", "value": UNKNOWN}]})],
    ),
    "no-secrets-in-arguments": Case(
        keeps=[
            deployment({"command": ["run", "--token-file=/secrets/token"]}),
            *(
                deployment({"args": args})
                for args in (
                    ["--password=$(DB_PASSWORD)", "--token", "$(TOKEN)", "--api-key", "/etc/keys/id"],
                    ["--pad-token=<pad>", "--token", "--verbose", "--compass=north"],
                    ["sh", "-c", 'export TOKEN=$(cat /etc/token); exec run --password "$PASSWORD" --steps=3'],
                )
            ),
        ],
        breaks={
            "args[0] = '…'": deployment({"args": ["--db-password=hunter2"]}),
            "command[1] = '…'": deployment({"command": ["run", "--token", "abc"]}),
            "command[2] = '…'": deployment({"command": ["sh", "-c", "DB_PASS=hunter2 exec run"]}),
            "container main: args[1] = '…'": deployment({"args": ["-c", "run --api-key 'k1' && true"]}),
            "args[1] = '…'": deployment({"args": ["--key", ACCESS_KEY]}),
        },
        undecided=[unknown_deployment(), deployment({"args": UNKNOWN})],
    ),
}
