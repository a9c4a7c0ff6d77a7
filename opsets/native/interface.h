/* onnxruntime's interface for custom ops, as far as kernels need it: functions by their places
   in its table, which only grows, and the layout of an op. Version 24 is the first that shows
   the sizes of a tensor without a copy of them. */

#pragma once

#if defined(__GNUC__) && !defined(__clang__) /* at -O2 few loops are worth vectors to GCC */
#pragma GCC optimize("tree-vectorize", "vect-cost-model=dynamic")
#endif

#include <cstddef>
#include <cstdint>

namespace qpasses {

enum Place {
    CREATE_STATUS = 0,
    CREATE_DOMAIN = 26,
    ADD_OP = 27,
    ADD_DOMAIN = 28,
    TENSOR_DATA = 51,
    TENSOR_INFO_OF_TYPE = 55,
    CREATE_INFO = 57,
    SET_ELEMENT_TYPE = 58,
    SET_DIMENSIONS = 59,
    ELEMENT_TYPE = 60,
    DIMENSIONS_COUNT = 61,
    DIMENSIONS = 62,
    SYMBOLIC_DIMENSIONS = 63,
    INTEGER_ATTRIBUTE = 86,
    STRING_ATTRIBUTE = 87,
    INPUT_COUNT = 88,
    GET_INPUT = 90,
    GET_OUTPUT = 91,
    RELEASE_STATUS = 93,
    RELEASE_INFO = 99,
    INTEGERS_ATTRIBUTE = 163,
    CONFIGURATION = 238,
    CONSTANT_INPUT = 249,
    INFERENCE_INPUT = 268,
    INFERENCE_ATTRIBUTE = 269,
    INFERENCE_OUTPUT = 270,
    SET_SYMBOLIC_DIMENSIONS = 271,
    READ_ATTRIBUTE = 272,
    PARALLEL_FOR = 274,
    TYPE_AND_SIZES = 414,
    SIZE = 415
};

constexpr uint32_t VERSION = 24, OP_VERSION = 17;
constexpr size_t MOST_AXES = 16;

enum Type : int { ANY = 0, UINT8 = 2, INT8 = 3, UINT16 = 4, INT16 = 5, INT32 = 6, INT64 = 7 };

using Function = void (*)();

struct Api {
    Function functions[SIZE];
};

struct ApiBase {
    const Api *(*get_api)(uint32_t version);
    const char *(*version)();
};

using Status = void *;

/* The function at a place, as one that takes these. */
template <typename... Arguments>
Status call(const Api *api, Place place, Arguments... arguments) {
    return reinterpret_cast<Status (*)(Arguments...)>(api->functions[place])(arguments...);
}

struct Op { /* OrtCustomOp of version 17 */
    uint32_t version;
    void *(*create_kernel)(const Op *, const Api *, const void *info);
    const char *(*name)(const Op *);
    const char *(*provider)(const Op *);
    int (*input_type)(const Op *, size_t);
    size_t (*input_count)(const Op *);
    int (*output_type)(const Op *, size_t);
    size_t (*output_count)(const Op *);
    void (*compute)(void *kernel, void *context);
    void (*destroy)(void *kernel);
    int (*input_kind)(const Op *, size_t);
    int (*output_kind)(const Op *, size_t);
    int (*input_memory)(const Op *, size_t);
    int (*least_inputs)(const Op *);
    int (*inputs_are_alike)(const Op *);
    int (*least_outputs)(const Op *);
    int (*outputs_are_alike)(const Op *);
    Status (*create_kernel_2)(const Op *, const Api *, const void *info, void **kernel);
    Status (*compute_2)(void *kernel, void *context);
    Status (*infer)(const Op *, void *context);
    int (*first_version)(const Op *);
    int (*last_version)(const Op *);
};

} // namespace qpasses
