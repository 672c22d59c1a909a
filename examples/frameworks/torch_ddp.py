"""Trains a small network with torch's DistributedDataParallel, no import of Headway.

Start it with `python torch_ddp.py …` once per process, or with `torchrun torch_ddp.py …`. Rank 0 saves; all go on from
there, also with another number of processes.
"""

import argparse
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--checkpoint", type=Path, required=True, help="a folder")
parser.add_argument("--pause", type=float, default=0.0, help="seconds per epoch, for demonstrations")
options = parser.parse_args()

torch.set_num_threads(1)
distributed.init_process_group("gloo")  # reads MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE
rank, size = distributed.get_rank(), distributed.get_world_size()

torch.manual_seed(7)
inputs = torch.randn(512, 16)
labels = (inputs[:, :8].sum(1) > inputs[:, 8:].sum(1)).long()
dataset = TensorDataset(inputs, labels)
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

file = options.checkpoint / "model.pt"
first = 0
if file.exists():
    saved = torch.load(file)
    model.module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["epoch"]
print(f"rank {rank} of {size}: from epoch {first}", flush=True)

sampler = DistributedSampler(dataset)
for epoch in range(first, options.epochs):
    sampler.set_epoch(epoch)
    for batch, wanted in DataLoader(dataset, batch_size=32, sampler=sampler):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), wanted)
        loss.backward()
        optimizer.step()
    if rank == 0:
        options.checkpoint.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}, part)
        part.replace(file)
    time.sleep(options.pause)

right = (model(inputs).argmax(1) == labels).float().mean()
print(f"rank {rank}: done after epoch {options.epochs}, {right:.0%} right", flush=True)
distributed.destroy_process_group()
