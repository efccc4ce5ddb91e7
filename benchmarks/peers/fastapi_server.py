"""FastAPI with a transformers pipeline, after transformers' own guide "Web server inference".

That guide has one task that runs the pipeline, a queue in front of it, and dynamic batching: texts that
arrive within a millisecond form a batch of at most BATCH texts, as `pipe(texts, batch_size=len(texts))`.
"""

import asyncio
import os
from contextlib import asynccontextmanager

import torch
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import pipeline

BATCH = 32
WAIT_S = 0.001
torch.set_num_threads(int(os.environ["PEER_THREADS"]))


class PredictRequest(BaseModel):
    inputs: str | list[str]


async def work(queue):
    pipe = pipeline("text-classification", model=os.environ["PEER_MODEL"], device="cpu", trust_remote_code=False)
    loop = asyncio.get_running_loop()
    while True:
        batch = [await queue.get()]
        while len(batch) < BATCH:
            try:
                batch.append(await asyncio.wait_for(queue.get(), WAIT_S))
            except asyncio.TimeoutError:
                break
        texts = [text for text, _ in batch]
        try:
            # in a thread, so that requests are read in the meantime
            answers = await loop.run_in_executor(None, lambda texts=texts: pipe(texts, batch_size=len(texts)))
        except Exception as error:
            for _, future in batch:
                future.set_exception(error)
            continue
        for (_, future), answer in zip(batch, answers, strict=True):
            future.set_result(answer)


@asynccontextmanager
async def lifespan(app):
    app.state.queue = asyncio.Queue()
    app.state.worker = asyncio.create_task(work(app.state.queue))
    yield
    app.state.worker.cancel()


app = FastAPI(lifespan=lifespan)


async def answer_of(text):
    answer = asyncio.get_running_loop().create_future()
    await app.state.queue.put((text, answer))
    return await answer


@app.post("/predict")
async def predict(request: PredictRequest):
    if isinstance(request.inputs, str):
        return await answer_of(request.inputs)
    return await asyncio.gather(*map(answer_of, request.inputs))
