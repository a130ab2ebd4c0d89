"""Warm start: pretrain on the task's own texts before training on the task (Krishna et al. 2023).

The same trainer runs several times, on the same split, with the same tokenizer, shape and seed:

OUT/.without      the task from random weights, as the baseline
OUT/.pretrained   denoising or language modelling on the texts alone
OUT/.run-2, ...   the task from the pretrained weights, if several runs are averaged
OUT               the task from the pretrained weights
"""
