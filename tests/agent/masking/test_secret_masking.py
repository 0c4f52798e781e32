"""Secrets of command lines and log text are masked where they are read; other text stays as it is."""

from __future__ import annotations

import base64
import json
import random
import time
from pathlib import Path

import pytest

from gpuwatch.agent.logs.lines.splitter import Splitter, line_text
from gpuwatch.agent.masking.secret_forms import MASK
from gpuwatch.agent.masking.secret_masking import masked
from gpuwatch.agent.processes.process_details import command_line
from gpuwatch.agent.ranks.rank_environment import variables
from tests.cli.running import gpuwatch

SECRET = "s3cr3tV4lue"  # noqa: S105 - plays one
MIXED = "Zq8Xv2Lm9Tw4Rb7Y"
RANDOM = "kR7vQ2xW9mZ4tB6nY1pL8sD3fG5hJ0cA"
HEX = "0123456789abcdef" * 2 + "01234567"
ISSUED = [
    "hf_" + "aB3" * 11,
    "AKIA" + "ABCD2345" * 2,
    "glptt-" + "aB3" * 10,
    "gldt-" + "aB3-" * 5,
    "xapp-1-A0123456789-1234567890123-abcdefgh",
    "dop_v1_" + HEX,
    "shpat_" + HEX,
    "SharedAccessSignature=" + RANDOM,
    *(f"{prefix}{RANDOM}" for prefix in ("whsec_", "pplx-", "lin_api_", "glsa_", "rpa_", "api_org_", "")),
    "ghp_" + "aB3" * 12,
    "github_pat_" + "aB3_" * 10,
    "glpat-" + "aB3-" * 5,
    "xoxb-123456789012-abcdefgh",
    "sk-ant-api03-" + "aB3_" * 10,
    "AIza" + "aB3_x" * 7,
    "nvapi-" + "aB3_" * 15,
    "npm_" + "aB3" * 12,
    "dckr_pat_" + "aB3-" * 7,
    "pypi-AgEIcHlwaS5vcmc" + "aB3_" * 20,
    "SG." + "aB3_" * 5 + "." + "aB3-" * 10,
    "ya29." + "aB3_" * 20,
    "sk_live_" + "aB3" * 10,
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7",
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz",
    "rk_test_" + "aB3" * 10,
    "hvs." + "aB3_" * 10,
    "gsk_" + "aB3x" * 13,
    "xai-" + "aB3x" * 20,
    "r8_" + "aB3x" * 9,
    "dapi" + "0123456789abcdef" * 2,
    "wandb_v1_" + "aB3x" * 15,
    "GOCSPX-" + "aB3_" * 7,
    "1//0" + "aB3_" * 12,
    "aB3" + "8Q~" + "aB3x" * 8,
    "IQoJb3JpZ2luX2Vj" + "aB3x" * 20,
    "eyJhbGciOiJIUzI1NiJ9." + "aB3x" * 1500 + ".c2ln",
    "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4In0..aB3xaB3x.aB3xaB3x.aB3x",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2ln",
]
PLACES = [
    "GET https://store.example/a?b=1\\u0026sig={}",
    "pass\\u0077ord={}",
    "\\u0022password\\u0022:\\u0022{}\\u0022",
    '{{"log": "{{\\\\\\"password\\\\\\": \\\\\\"{}\\\\\\"}}"}}',
    "  wandb_api_key ................................... {}",
    "hf_token                                : {}",
    "| hf_token | {} |",
    "\u2502 db_password \u2502 {} \u2502",
    "os.environ['WANDB_API_KEY'] = '{}'",
    "train.py --password {} --lr 1",
    "train.py --db-password={}",
    "train.py -password {}",
    "serve --api-key={} --port 80",
    "serve --api_key {}",
    "serve --hf-token {}",
    "WANDB_API_KEY={} python train.py",
    "AWS_SECRET_ACCESS_KEY={}",
    "PGPASSWORD={} psql",
    "curl https://bob:{}@host/x",
    "postgresql+psycopg2://bob:{}@db:5432/x",
    "curl -H 'Authorization: Bearer {}'",
    "Authorization: Basic {}",
    "config: {{'api_key': '{}', 'lr': 1}}",
    '{{"level": "info", "password": "{}", "step": 3}}',
    '{{"log": "{{\\"token\\": \\"{}\\"}}"}}',
    "GET https://host/x?access_key={}&page=2",
    "password: {}",
    'Password = "{}"',
    "client_secret: {}",
    "Authorization: token {}",
    "{{'Authorization': 'Token {}'}}",
    "serve --pass {}",
    "serve --pwd={}",
    "serve --db-pass {} --port 80",
    "serve --auth {}",
    "curl -u user:{} host",
    "curl -sS --user 'user:{}' host",
    "GET https://host/x?sv=2024&sig={}&page=2",
    "GET https://host/x?X-Amz-Signature={}",
    "AccountName=x;AccountKey={};EndpointSuffix=y",
    "serve --hf_token\t{}",
    "api_key=b'{}'",
    "https://user:p@ss{}@host/x",
    "argv: ['train.py', '--password', '{}', '--lr', '1']",
    'cmd ["serve", "--api-key", "{}"]',
    '{{"argv": "[\\"--hf-token\\", \\"{}\\"]"}}',
    "['serve', '--db-pass', '{}']",
    "MYSQL_PWD={} mysql",
    "DB_PASS={}",
    "PASS={}",
    "db_pass: {}",
    "DB_PASS=4x{}",
    "SMTP_PASS={} python train.py",
    "WANDB_KEY={}",
    "export STORAGE_KEY={}",
    "ENCRYPTION_KEY={}",
    "serve --wandb-key {}",
    "Authorization: {}",
    "password=a,{}",
    "password=a;{}",
    "password=a&{}",
    "password=a<{}",
    "PASSWORD='a\\'{}'",
    'PASSWORD="it\'s {}"',
    "password=*{}",
    "password=(x){}",
    "password={{{}",
    "password%3D{}",
    "client_secret%3d{}",
    "access_token%22%3A%22{}%22",
    "https://user:pa/{}@host/x",
    "api_key := {}",
    "api_key => {}",
    "sshpass -p {} ssh host",
    "mysql -u root -p{} db",
    "redis-cli -h x -a {} ping",
    "['sshpass', '-p', '{}', 'ssh']",
    "curl -b x -H 'Cookie: session={}'",
    "Set-Cookie: sid={}",
    "hooks.slack.com/services/T000/B000/{}",
    "pwd={}",
    "serve --pw={}",
    "serve --pw {}",
    "password: [{}]",
    'passwords = ["{}"]',
    '{{"token": {{"value": "{}"}}}}',
    '{{"secret": {{"name": "x", "data": "{}"}}}}',
    "{{'password': {{'value': '{}'}}}}",
    "wandb login {}",
    "wandb login --relogin --host=https://x {}",
    "['wandb', 'login', '{}']",
    "openssl rsa -passin pass:{} -in x",
    "openssl enc -pass pass:{}",
    "fetch --proxy-user bob:{} x",
    "export HF_TOKEN {}",
    "setenv WANDB_API_KEY {}",
    "fish: set -gx HF_TOKEN {}",
    "docker login -u bob -p {} registry",
    "machine api.host login bob password {}",
    "default login bob password {}",
    "  login bob password {}",
    "  password {}",
    "KEY='-----BEGIN PGP PRIVATE KEY BLOCK-----{}-----END PGP PRIVATE KEY BLOCK-----'",
    "KEY='-----BEGIN RSA PRIVATE KEY-----{}-----END RSA PRIVATE KEY-----'",
]
PLAIN = [
    "| token | loss |",
    "| next token | accuracy |",
    "  pad_token ....................................... <pad>",
    "  tokenizer_type .................................. GPT2BPETokenizer",
    "tokens per second: 4096",
    "token: 4096",
    '{"tokens": 4096, "token": 12, "password": null}',
    "--max-tokens 4096 --tokenizer meta/llama-3 --token-budget 12345678",
    "pad_token: <|endoftext|> eos_token='</s>'",
    "next token: 'themselves'",
    "password: None",
    "Invalid token found at line 4",
    "401 token is expired",
    "multi-pass rendering, second pass 12345, --passes 1000 --auth basic --author alice --two-pass",
    "PWD=/home/user OLDPWD=/home/other/folder",
    "docker run -u 1000:1000 image",
    "curl -O https://host/file.tar.gz",
    "signature=(Tensor, int) AuthType=auth/munge",
    "password for user bob",
    "secret = $SECRET",
    "rdzv tcp://10.0.0.1:29500 and ssh://git@host/x and s3://bucket/path@v2",
    "http://[::1]:80/x",
    "commit 0123456789abcdef0123456789abcdef01234567",
    "step 10 loss 2.1 tok/s 12,000 lr 3e-4",
    "--tokenizer meta-llama/Llama-3.1-8B --max_tokens 4096 --max-tokens=4096 --tokenizer_path /m/tok",
    "train.py --pass 3 --passes 4 --num-pass 2 --pass 1000 --eval_pass=5",
    "forward_pass=12.3ms backward_pass: 45.1 pass=2/5 eval_pass=second one_pass=enabled",
    "key=value sort_key=length cache_key=fa0b1c2d3e4f --image-key image --text_key caption_en",
    "monitor_key: val/loss_epoch metric_key=eval_accuracy key: model.layers.12.self_attn.q_proj.weight",
    '{"key": "train/loss_epoch_12", "keys": 3, "session": "run-2026-11-22"}',
    "KeyError: 'lm_head.weight' num_key_value_heads=8 dict_keys(['a'])",
    "cls_pw=1.0 obj_pw=0.5 pw=0.25",
    "PASS: test_matmul_fp16 PASS: 12 of 12, pass: compile",
    "image repo/name:tag@sha256:0123456789abcdef git@github.com:org/repo.git",
    "http://10.0.0.1:29500/path@x user@host:/data/x1",
    "tokens=4096, tokens_per_s=1.2e5, total_tokens: 12B, token_budget=[1, 2], token_type_ids=(0, 1)",
    "Namespace(tokenizer='Qwen2Tokenizer', add_bos_token=True, token=None, password=None)",
    "password=${DB_PASSWORD} secret=$(cat /run/x) token=<hidden> password=********",
    "step=100,loss=2.1,acc=0.5,lr=3e-4 cookie recipe",
    "/data/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/shard0001",
    "pwd=/home/user pwd=~/x pwd=./run pw=5 pwd: checkpoints",
    "max_tokens=5 tokenizer=x num_tokens: 12 tokens: [1024, 2048] tokens=['the', 'cat', 'themselves']",
    '{"token": {"text": "themselves", "logprob": -0.3, "id": 1234}, "tokens": {"total": 4096}}',
    "{'pad_token': {'content': '<pad>', 'lstrip': False}}",
    "wandb login required; run wandb login first, wandb login succeeded",
    "export TOKEN limit",
    "export PYTHONPATH=/x ENV TOKENIZERS_PARALLELISM false",
    "set -e TOKEN none",
    "machine gpu-001 login node ready",
    "password incorrect",
    "password: [hidden] secret=[REDACTED]",
    "docker login failed -p",
    "openssl version pass:1",
    "===== step 12 == 12 =====",
    "NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_masked_in_command_lines_and_log_lines(place: str) -> None:
    text = place.format(SECRET)
    argv = b"\0".join(text.encode().split(b" ")) + b"\0"
    for reported in (masked(text), line_text(text.encode()), command_line(argv) or ""):
        assert SECRET not in reported
        assert reported.count(MASK) == 1
    assert masked(masked(text)) == masked(text)


@pytest.mark.parametrize("token", [*ISSUED, f"wandb login {HEX}", f"wandb login --relogin {HEX}"])
def test_a_token_of_a_known_form_is_masked_wherever_it_stands(token: str) -> None:
    for text in (token, f"using {token}.", f"x={token}", f"https://{token}@host/"):
        assert token.rsplit(maxsplit=1)[-1] not in masked(text), text
        assert MASK in masked(text)


@pytest.mark.parametrize("text", PLAIN)
def test_other_text_stays(text: str) -> None:
    assert masked(text) == text


def test_the_fingerprints_of_a_changed_host_key_stay_whole_and_nothing_longer_does() -> None:
    """The person compares them with the node's."""
    chance = random.Random(28)
    for _ in range(100):
        one, other = (base64.b64encode(chance.randbytes(32)).decode().rstrip("=") for _ in range(2))
        text = f"the key of gpu-001 CHANGED: shows ED25519 SHA256:{one}, file:3 has RSA SHA256:{other}."
        assert masked(text) == text
        assert MASK in masked(f"SHA256:{one}x{RANDOM}")
        assert RANDOM not in masked(f"{text} {RANDOM}")


@pytest.mark.parametrize("secret", ["$" + MIXED, "<" + MIXED, "*" + MIXED, MIXED])
@pytest.mark.parametrize(
    "place",
    [
        "password={}",
        "X-Vault-Token {}",
        "password is {}",
        "AWS_SESSION={}",
        "pass: {}",
        '{{"auth":"{}"}}',
        "key: {}",
    ],
)
def test_random_text_behind_a_name_is_masked(place: str, secret: str) -> None:
    assert MIXED not in masked(place.format(secret))


@pytest.mark.parametrize("width", [64, 70, 76, 86])
def test_a_line_of_the_body_of_a_private_key_is_masked(width: int) -> None:
    body = (base64.b64encode(random.Random(7).randbytes(100)).decode().replace("=", ""))[:width]
    for line in (body, f"[rank0]: {body}", body + "\r"):
        assert body not in masked(line)
    assert masked("0123456789abcdef" * 4) == "0123456789abcdef" * 4


def test_json_stays_json() -> None:
    record = {"api_key": SECRET, "token": 12, "password": 1234, "message": f"--password {SECRET}"}
    reported = json.loads(masked(json.dumps(record)))
    assert reported == {"api_key": MASK, "token": 12, "password": 1234, "message": f"--password {MASK}"}


def test_lines_of_a_file_come_masked() -> None:
    (_, _, text), *_ = Splitter().feed(f"login with --password {SECRET}\n".encode(), 0)
    assert text == f"login with --password {MASK}"


@pytest.mark.long
@pytest.mark.parametrize(
    "unit",
    [
        "password=",
        "password=a,",
        "key=",
        "a_",
        "a:b@",
        "x_key='",
        "Cookie: ",
        "'--p', ",
        "mysql ",
        "redis-cli ",
        "sshpass -p",
        "://a:b/",
        "A1b",
        "pass:",
        "<",
        "token ",
        "://a",
        "Bearer ",
        "--",
        "-a",
        '"',
        "eyJ",
        "sk-",
        "hf_a",
        "wandb login ",
        "wandb login --a ",
        "docker login ",
        "export A_TOKEN ",
        "machine a login b password ",
        "token:[a",
        "token:{value:a,",
        "--proxy-user a:",
        "1//0",
        "aQ~",
        "eyJa.",
        "=",
        "a:",
    ],
)
def test_masking_takes_time_in_proportion_to_the_line(unit: str) -> None:
    def cost(size: int) -> float:
        text = "password " + (unit * (size // len(unit) + 1))[:size]
        best = 9.0
        for _ in range(3):
            began = time.process_time()
            masked(text)
            best = min(best, time.process_time() - began)
        return best / size

    small, large = cost(4096), cost(65536)
    assert large <= 4 * small + 2e-8


def test_the_count_stands_in_the_reports(tmp_path: Path) -> None:
    lines = [
        f"2026-11-22 10:00:{second:02d} ERROR cannot log in with password={SECRET}" for second in range(3)
    ]
    (tmp_path / "rank_0.log").write_text("\n".join(["2026-11-22 10:00:00 step 1 loss 2.0", *lines]) + "\n")
    reported = gpuwatch("scan", str(tmp_path), "--json").stdout
    assert SECRET not in reported
    assert json.loads(reported)["secrets_masked"] == reported.count(MASK) > 0
    text = gpuwatch("scan", str(tmp_path), changes={"COLUMNS": "200"}).stdout
    assert SECRET not in text
    assert MASK in text.splitlines()[-1]


@pytest.mark.parametrize(
    "argv",
    [
        ["--password", f'a"b{SECRET}'],
        ["--password", f"-9{SECRET}"],
        [f"--api-key=a,'b{SECRET}"],
        ["-storepass", SECRET],
        ["DB_PASSWORD=" + f'x"{SECRET}'],
        ["ldapsearch", "-D", "cn=admin", "-w", SECRET],
        ["ipmitool", "-H", "bmc", "-U", "admin", "-P", SECRET, "chassis"],
    ],
)
def test_a_value_of_an_option_is_masked_whole(argv: list[str]) -> None:
    shown = command_line("\0".join(["t.py", *argv, "--steps", "12"]).encode() + b"\0")
    assert shown is not None
    assert SECRET not in shown
    assert MASK in shown
    assert shown.endswith(" --steps 12")


def test_a_secret_in_a_variable_of_a_rank_is_masked() -> None:
    found = variables(f"TORCHELASTIC_RUN_ID=run-token={SECRET}\0RANK=3\0".encode())
    assert found == {"TORCHELASTIC_RUN_ID": f"run-token={MASK}", "RANK": "3"}


def test_a_secret_of_several_words_is_masked_whole() -> None:
    argv = b"t.py\0--password\0a b tr0ub4dor c\0--token=x y tr0ub4dor\0--name=a b\0"
    assert command_line(argv) == f't.py --password "{MASK}" --token="{MASK}" --name="a b"'
    for text in ("--token 'abc def tr0ub4dor'", '"password":\t"tr0ub4dor"'):
        assert "tr0ub4dor" not in masked(text)
    assert masked("the token 'hello world' is") == "the token 'hello world' is"


@pytest.mark.parametrize(
    ("above", "value"),
    [
        ("--password=", SECRET),
        ("secret: >", f"  {SECRET}"),
        ("  api_key: |-", f"    {SECRET}"),
        ("[rank0]: db_password:", f"[rank0]:   {SECRET}"),
        ('"token":', f'"{SECRET}",'),
        ("train.py --hf-token=\\", SECRET),
    ],
)
def test_a_secret_below_its_name_is_masked(above: str, value: str) -> None:
    rows = Splitter().feed(f"{above}\n{value}\nstep 3\n".encode(), 0)
    assert [SECRET in text for *_, text in rows] == [False] * 3
    assert MASK in rows[1][2]
    assert rows[2][2] == "step 3"


@pytest.mark.parametrize(
    "lines",
    [
        ["Invalid token:", "themselves"],
        ["secret:", "the next line is a sentence"],
        ["missing ranks:", SECRET],
        ["password:", "username: bob"],
        ["token:", "  value: 12"],
        ["secret =", "  None"],
        ["-----BEGIN CERTIFICATE-----", "abcd"],
    ],
)
def test_a_line_below_another_name_stays(lines: list[str]) -> None:
    rows = Splitter().feed("".join(f"{line}\n" for line in lines).encode(), 0)
    assert [text for *_, text in rows] == lines


@pytest.mark.parametrize("prefix", ["[r0] ", "2026-01-01 10:00:00,123 INFO ", "0: "])
def test_the_whole_body_of_a_private_key_is_masked(prefix: str) -> None:
    body = [base64.b64encode(random.Random(seed).randbytes(48)).decode() for seed in range(3)]
    lines = ["-----BEGIN PRIVATE KEY-----", *body, "aB3xYz==", "-----END PRIVATE KEY-----", "step 3"]
    rows = [text for *_, text in Splitter().feed("".join(f"{prefix}{line}\n" for line in lines).encode(), 0)]
    assert [MASK in text for text in rows] == [False, True, True, True, True, False, False]
    assert rows[-1] == f"{prefix}step 3"


def generated(chance: random.Random) -> str:
    """A secret with at least a digit and a letter, some with signs, blanks or quotes inside."""
    letters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
    word = "".join(chance.choice(letters) for _ in range(chance.randint(8, 40)))
    return f"Q7{word}x9"


@pytest.mark.parametrize("seed", range(20))
def test_no_generated_secret_stands_in_an_argument_or_a_line(seed: int) -> None:
    chance = random.Random(seed)
    for place in PLACES:
        secret = generated(chance)
        text = place.format(secret)
        assert secret not in masked(text), text
        argv = [f"{chance.choice(('--password', '--hf-token', '--api_key'))}", f"a \"{secret} b'c {secret}"]
        joined = chance.random() < 0.5
        whole = ["t.py", "=".join(argv)] if joined else ["t.py", *argv]
        assert secret not in (command_line("\0".join(whole).encode() + b"\0") or ""), whole


def test_no_generated_secret_stands_in_the_reports_of_a_scan(tmp_path: Path) -> None:
    chance = random.Random(7)
    secrets = [generated(chance) for _ in range(len(PLACES) + 2)]
    lines = ["2026-11-22 10:00:00 step 1 loss 2.0"]
    for number, place in enumerate(PLACES):
        lines.append(f"2026-11-22 10:{number // 60:02d}:{number % 60:02d} ERROR {number} failed: ")
        lines[-1] += place.format(secrets[number])
    lines += ["ERROR no login with --password=", secrets[-1], "RuntimeError: secret:", f"  {secrets[-2]}"]
    (tmp_path / "rank_0.log").write_text("\n".join(lines) + "\n")
    for more in ([], ["--json"], ["-v"]):
        found = gpuwatch("scan", str(tmp_path), *more)
        assert found.returncode == 1
        assert [each for each in secrets if each in found.stdout + found.stderr] == []
