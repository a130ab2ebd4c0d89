"""Store each matrix as its product reads it. torch exports x W^T, with a transposition on every run."""

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


def fold_transposes(model: "ModelProto", *, shared: bool = False) -> None:
    """Replace transpositions of stored matrices by stored transposed matrices.

    Args:
        model: the model, which is changed.
        shared: also those of matrices that are read elsewhere, such as a tied embedding, which is then stored twice.
    """
    from onnx.numpy_helper import from_array, to_array

    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    uses = Counter(name for node in graph.node for name in node.input)
    folded = [it for it in graph.node if it.op_type == "Transpose" and it.input[0] in stored and _swaps(it)]
    for node in folded if shared else [it for it in folded if uses[it.input[0]] == 1]:
        matrix = to_array(stored[node.input[0]])
        graph.initializer.append(from_array(matrix.T.copy(), node.output[0]))
        graph.node.remove(node)
    _drop_unused(graph)


def _swaps(node: "NodeProto") -> bool:
    """Return whether a transposition swaps rows and columns."""
    return any(it.name == "perm" and list(it.ints) == [1, 0] for it in node.attribute)


def _drop_unused(graph: "GraphProto") -> None:
    used = {name for node in graph.node for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
