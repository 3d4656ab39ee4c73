"""The peer's training script: the network, data and batch of fashion-mnist-cnn in PyTorch's own elastic way. Started by
torchrun for each process of a round: loads the last checkpoint, trains, and leaves when it is killed.

train.py DATA FOLDER BATCH_SIZE; rank 0 appends `monotonic_ns,step,generation,width` to FOLDER/trace.csv."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

data, folder, batch_size = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, width = dist.get_rank(), dist.get_world_size()
samples = os.path.getsize(f"{data}/labels")
images = torch.from_file(f"{data}/images", size=samples * 784, dtype=torch.uint8).view(samples, 1, 28, 28)
labels = torch.from_file(f"{data}/labels", size=samples, dtype=torch.uint8)

torch.manual_seed(1)
model = nn.parallel.DistributedDataParallel(
    nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    ),
    gradient_as_bucket_view=True,
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
loss_of = nn.CrossEntropyLoss()

# Every tenth step: what a change redoes is left out of the gap, which ends with the first step after it, redone or not.
checkpoint = f"{folder}/checkpoint.pt"
step, generation = 0, 0
if os.path.exists(checkpoint):
    saved = torch.load(checkpoint)
    model.module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step, generation = saved["step"], saved["generation"] + 1

trace = open(f"{folder}/trace.csv", "a", buffering=1)
order, epoch = None, -1
while True:
    steps = samples // batch_size
    if step // steps != epoch:
        epoch = step // steps
        order = torch.randperm(samples, generator=torch.Generator().manual_seed(epoch))
    first = (step % steps) * batch_size
    mine = order[first + rank : first + batch_size : width]
    x = (images[mine].float() / 255.0 - 0.2860) / 0.3530
    optimizer.zero_grad()
    loss_of(model(x), labels[mine].long()).backward()
    optimizer.step()
    if rank == 0:
        print(f"{time.monotonic_ns()},{step},{generation},{width}", file=trace)
    step += 1
    if rank == 0 and step % 10 == 0:
        saved = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "generation": generation}
        torch.save(saved, checkpoint + ".part")
        os.replace(checkpoint + ".part", checkpoint)
