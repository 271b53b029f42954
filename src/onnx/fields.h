#pragma once

// Field numbers of onnx.proto, by message. Private to src/onnx.
enum onnx_field {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_TRAINING = 20,
    MODEL_FUNCTION = 25,

    OPSET_DOMAIN = 1,
    OPSET_VERSION = 2,

    TRAINING_INITIALIZATION = 1, // a graph, as the next
    TRAINING_ALGORITHM = 2,

    FUNCTION_NODE = 7,
    FUNCTION_ATTRIBUTE = 11,

    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE = 15,

    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP = 4,
    NODE_ATTRIBUTE = 5,

    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_FLOAT = 2,
    ATTRIBUTE_INT = 3,
    ATTRIBUTE_STRING = 4,
    ATTRIBUTE_TENSOR = 5,
    ATTRIBUTE_GRAPH = 6,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TENSORS = 10,
    ATTRIBUTE_GRAPHS = 11,
    ATTRIBUTE_TYPE = 20,
    ATTRIBUTE_SPARSE = 22,
    ATTRIBUTE_SPARSES = 23,

    VALUE_NAME = 1, // of ValueInfoProto
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TYPE_ELEMENT = 1, // of TypeProto.Tensor
    TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_NAME = 2,

    TENSOR_DIMS = 1,
    TENSOR_ELEMENT = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION = 14,
    LOCATION_EXTERNAL = 1, // a value of TENSOR_LOCATION
    ENTRY_KEY = 1,         // of TENSOR_EXTERNAL
    ENTRY_VALUE = 2,

    SPARSE_VALUES = 1, // tensors
    SPARSE_INDICES = 2,
};
