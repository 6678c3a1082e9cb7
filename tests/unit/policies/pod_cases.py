"""Cases of rules about pods, images and secrets."""

from __future__ import annotations

from base64 import b64encode
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


def variable(name: str, value: str) -> Any:
    return deployment({"env": [{"name": name, "value": value}]})


def file(name: str, text: str) -> Any:
    return manifest("core/v1", "ConfigMap", data={name: text})


def volume(**spec: Any) -> Any:
    return manifest("core/v1", "PersistentVolume", spec=spec)


def own_job(**spec: Any) -> Any:
    given = {"queue": "research", "schedulerName": "volcano", **spec}
    return manifest("batch.volcano.sh/v1alpha1", "Job", spec=given)


def to_range(cidr: str, *without: str) -> Any:
    egress = [{"to": [{"podSelector": {}}, {"ipBlock": {"cidr": cidr, "except": list(without)}}]}]
    return manifest("networking.k8s.io/v1", "NetworkPolicy", spec={"egress": egress})


RANDOM = "q8zX2kLm" + "90aaPw7T"
JSON_WEB_TOKEN = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0" + ".dozjgNryP4J3jVmNHl0w5N"
LINES_WITH_SECRETS = (
    f"wandb login --relogin {RANDOM} && python train.py",
    f"wandb login --host https://wandb.example '{RANDOM}'",
    "echo hunter2 | docker login -u bob --password-stdin registry.example",
    "printf '%s' 'hunter 2' | podman login --username bob --password-stdin",
    "docker login -u bob -p hunter2",
    f"huggingface-cli login --token {RANDOM}",
    """python -c 'import os; os.environ["DB_PASSWORD"]="hunter2"; import train'""",
    f"os.environ.setdefault('WANDB_API_KEY', '{RANDOM}')",
    'python -c "import os; os.environ[\\"API_TOKEN\\"] = \\"hunter2\\""',
    f"from huggingface_hub import login; login('{RANDOM}')",
    "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI; aws s3 ls",
    "aws configure set aws_secret_access_key wJalrXUtnFEMI",
    "curl -sSu bob:hunter2 https://a",
    "curl 'https://a?b=1&c=2' --user bob:hunter2",
    "curl -H 'PRIVATE-TOKEN: hunter2' https://a",
    "git clone https://bob:hunter2@git.example/a",
    "echo 'machine a login b password hunter2' > ~/.netrc",
    "echo 'password=hunter2' >> settings",
    "redis-cli -h a -a hunter2 ping",
    "unzip -P hunter2 a.zip",
)
LINES_WITHOUT = (
    'wandb login "$WANDB_API_KEY" && wandb agent bob/project/a1b2c3d4',
    'echo "$PW" | docker login -u bob --password-stdin; cat /secrets/pw | docker login -u bob --password-stdin',
    "echo done | tee log; docker login -u bob -p $PW; docker run -u 1000:1000 -p 80:80 a",
    "curl https://a && docker run -u 1000:1000 a",
    """python -c 'os.environ["EOS_TOKEN"]="</s>"; os.environ["A_TOKEN"]=os.environ["B_TOKEN"]'""",
    """python -c 'd = {"key": "value", "input_token": "next_token"}; login(token=os.environ["T"])'""",
    "export AWS_SECRET_ACCESS_KEY=$(cat /secrets/key); aws configure set region cn-hangzhou",
    "export EOS_TOKEN='</s>' PAD_TOKEN=<pad>; run --eos_token '</s>' --max_tokens 2048",
    "git clone https://x:$TOKEN@git.example/a; pip install git+https://github.com/a/b@v1.0",
    "To configure the access, set a token or the password that you got",
    "redis-cli -h a -p 6379 ping; unzip -P $PW a.zip; mysql -h a && mkdir -pv b",
)
CODE = """
token = os.environ["HF_TOKEN"]
tokenizer.pad_token = tokenizer.eos_token
api_key = settings.api_key
self.password = password
secret = load(path)
"""
MASTER = {"key": "node-role.kubernetes.io/master", "operator": "Exists"}
CASES = {
    "workloads-admitted": Case(
        config={"namespaces": ["team"]},
        keeps=[
            deployment(priorityClassName="team.high", tolerations=[{"key": "gpu", "operator": "Exists"}]),
            own_job(),
            to_range("10.0.0.0/8"),
            to_range("0.0.0.0/0", "169.254.0.0/16", "100.64.0.0/10"),
            to_range("2001:db8::/32"),
            manifest("core/v1", "Service", spec={"type": "ClusterIP"}),
            manifest("core/v1", "Service", metadata={"namespace": "elsewhere"}, spec={"type": "NodePort"}),
            manifest("core/v1", "Service", metadata={"namespace": UNKNOWN}, spec={}),
        ],
        breaks={
            "spec.type = 'LoadBalancer': workloads have": manifest("core/v1", "Service", spec={"type": "LoadBalancer"}),
            "spec.externalIPs[] = '192.0.2.1'": manifest("v1", "Service", spec={"externalIPs": ["192.0.2.1"]}),
            "priorityClassName = 'system-node-critical'": deployment(priorityClassName="system-node-critical"),
            "nodeName = 'node-0': gets past": deployment(nodeName="node-0"),
            "tolerations[].key = None": deployment(tolerations=[{"operator": "Exists"}]),
            "tolerations[].key = 'node-role.kubernetes.io/master'": deployment(tolerations=[MASTER]),
            "volumes[].ephemeral = {}": deployment(volumes=[{"name": "cache", "ephemeral": {}}]),
            "volumes[].hostPath = ": deployment(volumes=[{"name": "root", "hostPath": {"path": "/"}}]),
            "hostIPC = True": deployment(hostIPC=True),
            "containers[].securityContext.privileged = True": deployment(secured(privileged=True)),
            "capabilities.add[] = 'SYS_ADMIN'": deployment(secured(capabilities={"add": ["SYS_ADMIN"]})),
            "spec.queue = None": volcano_job(),
            "spec.queue = 'root'": own_job(queue="root"),
            "spec.schedulerName = 'default-scheduler'": own_job(schedulerName="default-scheduler"),
            "spec.tasks[].replicas = 1001": own_job(tasks=[{"replicas": 1}, {"replicas": 1001}]),
            "spec.tasks = ": own_job(tasks=[{}] * 17),
            "spec.volumes[].volumeClaim = ": own_job(volumes=[{"mountPath": "/a", "volumeClaim": {"a": "b"}}]),
            "spec.replicas = 1001": manifest("apps/v1", "Deployment", spec={"replicas": 1001}),
            "spec.egress[].to = None": manifest("networking.k8s.io/v1", "NetworkPolicy", spec={"egress": [{}]}),
            "spec.egress[].to[].ipBlock = {'cidr': '0.0.0.0/1'": to_range("0.0.0.0/1"),
            "spec.egress[].to[].ipBlock = {'cidr': '169.254.169.254/32'": to_range("169.254.169.254/32"),
            "target.kind = 'Queue'": manifest("bus.volcano.sh/v1alpha1", "Command", target={"kind": "Queue"}),
        },
        undecided=[
            unknown_deployment(),
            manifest("core/v1", "Service", spec={"type": UNKNOWN}),
            manifest("core/v1", "Service", metadata={"namespace": UNKNOWN}, spec={"type": "NodePort"}),
        ],
    ),
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
            volume(local={"path": "/mnt/disks/ssd1"}),
            volume(csi={"driver": "nasplugin.csi.alibabacloud.com", "volumeAttributes": {"path": "/"}}),
        ],
        breaks={
            "volume a: hostPath = '/etc'": deployment(volumes=[{"name": "a", "hostPath": {"path": "/etc"}}]),
            **{
                f"hostPath = {path!r}": manifest("core/v1", "PersistentVolume", spec={"hostPath": {"path": path}})
                for path in ("/", "/etc", "/var/../root/.ssh", "/var/lib/kubelet/pods", "/var/run", "/home/a/.kube")
            },
            "hostPath = '/var/log'": volume(hostPath={"path": "/var/log"}),
            "local = '/var/lib/containerd/x'": volume(local={"path": "/var/lib/containerd/x"}),
            "csi.volumeAttributes.path = '/etc'": volume(
                csi={"driver": "localplugin.csi.alibabacloud.com", "volumeAttributes": {"path": "/etc"}}
            ),
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
            "seLinuxOptions.type = 'spc_t'": deployment(securityContext={"seLinuxOptions": {"type": "spc_t"}}),
            "annotation container.apparmor": manifest(
                "core/v1",
                "Pod",
                metadata={"annotations": {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}},
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
            file(
                "tokenizer_config.json", '{"unk_token": {"content": "<unk>"}, "bos_token_id": 1, "cls_token": "[CLS]"}'
            ),
            file("step.py", "next_token = 5\ntoken: str\napi_key = os.getenv('API_KEY')\n"),
            file("run.sh", 'export TOKEN="$(cat /x)"\ncurl -u "$USER:$PASS" https://a\n'),
            file("pod.yaml", "valueFrom: {secretKeyRef: {name: a, key: token}}\nsecret: team-chat\n"),
            file("values.yaml", "existingSecret: my-secret\nsecretKey: password\nname: a\nvalue: b\n"),
            file("known_hosts", "h ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"),
            manifest("core/v1", "Secret", stringData={"password": "secret"}),
        ],
        breaks={
            "data[db-password] = '…'": manifest("core/v1", "ConfigMap", data={"db-password": "secret"}),
            "data[app.ini] = '…'": manifest(
                "core/v1", "ConfigMap", data={"app.ini": "[db]\nuser = a\npassword = hunter2"}
            ),
            "data[app.yaml] = '…'": manifest("core/v1", "ConfigMap", data={"app.yaml": 'db:\n  password: "correct"\n'}),
            "data[app.json] = '…'": manifest("core/v1", "ConfigMap", data={"app.json": '{\n "api_key": "abc-1"\n}'}),
            **{
                f"data[{name}] = '…'": file(name, text)
                for name, text in (
                    ("a.env", "export DB_PASS=hunter2\n"),
                    ("line.json", '{"user": "a", "password": "hunter2"}'),
                    ("list.yaml", "- password: hunter 2 # of the test\n"),
                    ("flow.yaml", "db: {user: a, passwd: hunter2}\n"),
                    ("plain.properties", "spring.datasource.password=hunter\n"),
                    ("values.yaml", "env:\n- name: DB_PASSWORD\n  value: hunter2\n"),
                    ("hook.yaml", f"url: https://oapi.dingtalk.com/robot/send?access_token={RANDOM}\n"),
                    (".npmrc", "//registry.example/:_authToken=hunter2"),
                    (".netrc", "machine a login b password c"),
                    ("a.xml", "<db><password>hunter2</password></db>"),
                    ("docker.json", f'{{"auths": {{"a": {{"auth": "{RANDOM}"}}}}}}'),
                    ("deploy.py", f"WEBHOOK_KEY = '{RANDOM}'"),
                    ("fetch.sh", "curl --silent -u me:hunter2 https://a"),
                )
            },
            "binaryData[tls] = '…'": manifest(
                "core/v1", "ConfigMap", binaryData={"tls": b64encode(PEM.encode()).decode()}
            ),
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
                variable(name, value)
                for name, value in (
                    *(("MAX_NEW_TOKENS", "512"), ("TOKENIZER_PATH", "/models/a"), ("PASSWORD_FILE", "/run/x")),
                    *(("IMAGE_TOKEN", "<image>"), ("BATCH_TOKEN", "65536"), ("SECOND_PASS", "forward")),
                    *(
                        ("SORT_KEY", "created_at_2024"),
                        ("GIT_SHA_KEY", "9f86d081884c7d659a2f"),
                        ("SECRET", "team-chat"),
                    ),
                    *(("KMS_KEY_ID", RANDOM), ("CACHE_KEY", "v2-linux-2024-01-01"), ("CONTEXT_TOKEN", "32k")),
                    *(("OBJECT_KEY", "sets/imagenet1k_2012/a.tar"), ("SECRET", "kube-system/team-chat")),
                    *(("PASSWORD", "{{ .Values.password }}"), ("MYSQL_ALLOW_EMPTY_PASSWORD", "1")),
                    *(("TOKEN", "vault:secret/data/app"), ("DSN", "postgres://a:$(DB_PASS)@b/c"), ("RUN_ID", RANDOM)),
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
            **{
                f"env[{name}] = '…'": variable(name, value)
                for name, value in (
                    *(("PGPASSWORD", "hunter2"), ("clientSecret", "Q9x~8"), ("PASSWORD2", "hunter2"), ("CREDS", "a:b")),
                    *(("ENCRYPTION_KEY", "x"), ("SECRET_KEY_BASE", RANDOM), ("REDIS_AUTH", RANDOM), ("A_KEY", RANDOM)),
                    *(("ANY", JSON_WEB_TOKEN), ("HEADER", f"Bearer {RANDOM}"), ("HUB", "glpat-" + RANDOM + "abcd")),
                    *(("HOOK", "https://open.feishu.cn/open-apis/bot/v2/hook/1-2"), ("NGC", "nvapi-" + RANDOM * 3)),
                    *(("ARGS", "--steps 1 --db-password hunter2"), ("DSN", "Server=a;Pwd=hunter2;Port=1")),
                )
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
                    ["python", "-c", "password=os.environ['PW']; token = tokens[0]"],
                    ["--max-new-tokens", "512", "--pass", "2", "--private-key", "key.pem", "--secret-name", "a"],
                    ["sh", "-c", 'TOKEN=`cat /a` curl -H "Authorization: Bearer $TOKEN" -u $USER:$PASS https://a'],
                    ["--pad-token=<pad>", "--token", "--verbose", "--compass=north"],
                    ["sh", "-c", 'export TOKEN=$(cat /etc/token); exec run --password "$PASSWORD" --steps=3'],
                    *(["sh", "-c", line] for line in LINES_WITHOUT),
                )
            ),
        ],
        breaks={
            **{
                f"container c{number}: args[1] = '…'": volcano_job(
                    containers=[{"name": f"c{number}", "args": ["-c", line]}]
                )
                for number, line in enumerate(LINES_WITH_SECRETS)
            },
            "command[0] = '…'": deployment({"command": ["wandb", "login", RANDOM]}),
            "args[0] = '…'": deployment({"args": ["--db-password=hunter2"]}),
            "command[1] = '…'": deployment({"command": ["run", "--token", "abc"]}),
            "command[2] = '…'": deployment({"command": ["sh", "-c", "DB_PASS=hunter2 exec run"]}),
            "container main: args[1] = '…'": deployment({"args": ["-c", "run --api-key 'k1' && true"]}),
            "args[1] = '…'": deployment({"args": ["--key", ACCESS_KEY]}),
            "args[2] = '…'": deployment({"args": ["run", "--dbPassword", "--set=db.password=hunter2"]}),
            "container main: command[0] = '…'": deployment({"command": ["sshpass", "-p", "hunter2", "ssh", "a"]}),
            "command[3] = '…'": deployment({"command": ["curl", "a", "-H", f"Authorization: Bearer {RANDOM}"]}),
            "command[4] = '…'": deployment({"command": ["curl", "a", "-X", "GET", f"-H X-Api-Key: {RANDOM}"]}),
            "livenessProbe.exec.command[1] = '…'": deployment(
                {"livenessProbe": {"exec": {"command": ["ping", "--password=hunter2"]}}}
            ),
        },
        undecided=[unknown_deployment(), deployment({"args": UNKNOWN})],
    ),
}
