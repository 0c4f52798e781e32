"""Callbacks in real trainings of HF Trainer, Lightning and Accelerate: document 001, lines 271 to 332."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.telemetry.frameworks.programs import need_package, run, session_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
TRAINER = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from gpuwatch.telemetry.callbacks.huggingface import TelemetryCallback, add_telemetry
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2))
class Data(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, index): ids = torch.arange(16) % 50; return {"input_ids": ids, "labels": ids}
arguments = TrainingArguments(
    output_dir="hf", max_steps=12, logging_steps=4, per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    eval_strategy="steps", eval_steps=6, save_steps=6, report_to=REPORT, use_cpu=True, disable_tqdm=True,
    include_num_input_tokens_seen="all", run_name="tiny")
trainer = Trainer(model=model, args=arguments, train_dataset=Data(), eval_dataset=Data())
callback = add_telemetry(
    trainer, output_dir="out", include_performance_metrics=True, include_timer_metrics=True,
    collect_telemetry_for_all_ranks=True, performance_log_steps=6)
trainer.train()
print(sorted(trainer.state.log_history[0]))
"""


def test_the_gradients_of_two_ranks_are_measured(tmp_path: Path) -> None:
    """Document 002, lines 53 and 66."""
    need_package("transformers", "accelerate")
    (tmp_path / "train.py").write_text(TRAINER.replace("REPORT", "[]"))
    launch = (
        "from torch.distributed.run import main; main(['--standalone', '--nproc-per-node', '2', 'train.py'])"
    )
    run(tmp_path, launch)
    session, summary = session_of(tmp_path)
    counts = {each["operation"]: each["count"] for each in summary["communication"]}
    assert counts == {"gradient_sync": 24, "training_start": 1}, "12 steps of two ranks"
    assert "communication_s: " in session.main_log.read_text()


def test_a_trainer_of_transformers(tmp_path: Path) -> None:
    """Document 001, line 277."""
    need_package("transformers", "accelerate")
    printed = run(tmp_path, TRAINER.replace("REPORT", "[]"))
    session, summary = session_of(tmp_path)
    assert (summary["status"], summary["steps"], summary["total_steps"]) == ("completed", 12, 12)
    assert (summary["batch"]["global_size"], summary["batch"]["gradient_accumulation_steps"]) == (4, 2)
    assert summary["configuration"]["max_steps"] == 12
    assert summary["final_loss"] is not None
    assert [each["step"] for each in summary["evaluations"]] == [6, 12]
    assert summary["evaluation"]["eval_loss"] > 0
    assert summary["tokens_per_s"] > 0
    timers = summary["timers"]
    assert (timers["steps"]["count"], timers["microsteps"]["count"], timers["evaluation"]["count"]) == (
        11,
        22,
        2,
    )
    assert session.main_log.read_text().count("Step ") == 3
    assert "'rank000_microsteps_mean'" in printed, "document 001, line 328"
    assert "'rank000_steps_mean'" in printed
    assert "'tokens_per_second'" in printed
    files = {path.name for path in (tmp_path / "out").iterdir()}
    names = ("metrics_rank0000", "rank0000", "all_ranks", "gpu_temperature_summary")
    assert files == {f"telemetry_callback_{name}.json" for name in names}
    assert json.loads((tmp_path / "out" / "telemetry_callback_metrics_rank0000.json").read_text())["loss"] > 0


LIGHTNING = """
import logging, torch, warnings
warnings.simplefilter("ignore"); logging.disable(logging.INFO)
import lightning.pytorch as pl
from gpuwatch.telemetry.callbacks.lightning import LightningTelemetry
class Model(pl.LightningModule):
    def __init__(self): super().__init__(); self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        if END and self.global_step == 5: raise RuntimeError("boom")
        return self.layer(batch).pow(2).mean()
    def validation_step(self, batch, index): self.log("val_loss", self.layer(batch).pow(2).mean())
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=4)
trainer = pl.Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    accumulate_grad_batches=2, enable_model_summary=False,
    callbacks=[LightningTelemetry(log_interval_steps=4, batch_size=4)])
try: trainer.fit(Model(), data, data)
except RuntimeError as error: print(error)
"""


@pytest.mark.parametrize(("end", "status", "steps"), [("False", "completed", 16), ("True", "failed", 5)])
def test_a_trainer_of_lightning(tmp_path: Path, end: str, status: str, steps: int) -> None:
    need_package("lightning")
    run(tmp_path, LIGHTNING.replace("END", end))
    session, summary = session_of(tmp_path)
    assert (summary["status"], summary["steps"], summary["total_steps"]) == (status, steps, 16)
    assert summary["batch"]["gradient_accumulation_steps"] == 2
    assert "Step    4/16 (25.0%) | Loss: " in session.main_log.read_text()
    if status == "completed":
        assert summary["evaluation"]["val_loss"] > 0
        assert summary["timers"]["epochs"]["count"] == 2
    else:
        assert summary["error"] == "RuntimeError: boom"


ACCELERATE = """
import torch
from accelerate import Accelerator
from gpuwatch.telemetry.callbacks.accelerate import AccelerateTelemetry
telemetry = AccelerateTelemetry(log_interval_steps=5, total_steps=10, model_name="tiny")
try: AccelerateTelemetry(log_interval=5)
except TypeError as error: assert "log_interval" in str(error)
else: raise AssertionError
accelerator = Accelerator(log_with=telemetry, cpu=True)
accelerator.init_trackers("project", config={"lr": 0.1})
for step in range(1, 11):
    with telemetry.tracker.timer("forward"): pass
    accelerator.log({"train_loss": 1 / step, "lr": 0.1, "samples": 8, "accuracy": 0.5}, step=step)
accelerator.log({"eval_loss": 0.25}, step=10)
accelerator.end_training()
"""


def test_a_training_with_accelerate(tmp_path: Path) -> None:
    need_package("accelerate")
    run(tmp_path, ACCELERATE)
    session, summary = session_of(tmp_path)
    assert (summary["status"], summary["steps"], summary["model"]["name"]) == ("completed", 10, "tiny")
    assert (summary["configuration"], summary["final_loss"]) == ({"lr": 0.1}, 0.1)
    assert summary["evaluation"] == {"eval_loss": 0.25}
    assert summary["timers"]["forward"]["count"] == 10
    assert "Step   10/10 (100.0%) | Loss: 0.1000 | LR: 1.00e-01" in session.main_log.read_text()
