/* As much of onnxruntime's C++ interface as docs/classify.cpp uses, for machines that have its
   library alone: the same names and arguments, over functions by their places in its table. */

#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

struct OrtApiBase {
    const void *const *(*table)(uint32_t version);
};
extern "C" const OrtApiBase *OrtGetApiBase();

enum OrtLoggingLevel { ORT_LOGGING_LEVEL_WARNING = 2 };
enum OrtAllocatorType { OrtArenaAllocator = 1 };
enum OrtMemType { OrtMemTypeDefault = 0 };

namespace Ort {

struct Exception : std::exception {
    std::string said;
    explicit Exception(std::string text) : said(std::move(text)) {}
    const char *what() const noexcept override { return said.c_str(); }
};

template <typename... Arguments> void *called(int place, Arguments... arguments) {
    const void *function = OrtGetApiBase()->table(17)[place];
    return reinterpret_cast<void *(*)(Arguments...)>(const_cast<void *>(function))(arguments...);
}

template <typename... Arguments> void check(int place, Arguments... arguments) {
    if (void *status = called(place, arguments...)) {
        const Exception error(static_cast<const char *>(called(2, status)));
        called(93, status);
        throw error;
    }
}

/* What the function at the place RELEASE lets go. */
template <int RELEASE> struct Held {
    void *held = nullptr;
    Held() = default;
    Held(Held &&other) : held(std::exchange(other.held, nullptr)) {}
    ~Held() {
        if (held)
            called(RELEASE, held);
    }
};

struct Env : Held<92> {
    Env(OrtLoggingLevel level, const char *name) { check(3, int{level}, name, &held); }
};

struct SessionOptions : Held<100> {
    SessionOptions() { check(10, &held); }
    SessionOptions &SetIntraOpNumThreads(int count) {
        check(24, held, count);
        return *this;
    }
    SessionOptions &RegisterCustomOpsLibrary(const char *path) {
        void *library = dlopen(path, RTLD_NOW);
        void *function = library ? dlsym(library, "RegisterCustomOps") : nullptr;
        if (!function)
            throw Exception(dlerror());
        if (reinterpret_cast<void *(*)(void *, const OrtApiBase *)>(function)(held, OrtGetApiBase()))
            throw Exception("the library registers no ops");
        return *this;
    }
};

struct AllocatorWithDefaultOptions {
    void *held = nullptr;
    AllocatorWithDefaultOptions() { check(78, &held); }
};

struct Free {
    void *allocator;
    void operator()(char *text) const { called(76, allocator, text); }
};
using AllocatedStringPtr = std::unique_ptr<char, Free>;

struct TensorTypeAndShapeInfo : Held<99> {
    std::vector<int64_t> GetShape() const {
        size_t rank = 0;
        check(61, held, &rank);
        std::vector<int64_t> shape(rank);
        check(62, held, shape.data(), rank);
        return shape;
    }
    size_t GetElementCount() const {
        size_t count = 0;
        check(64, held, &count);
        return count;
    }
};

struct TypeInfo : Held<98> {
    struct Unowned : TensorTypeAndShapeInfo {
        Unowned() = default;
        Unowned(Unowned &&) = default;
        ~Unowned() { held = nullptr; }
    };
    Unowned GetTensorTypeAndShapeInfo() const {
        Unowned found;
        check(55, held, &found.held);
        return found;
    }
};

struct MemoryInfo : Held<94> {
    static MemoryInfo CreateCpu(OrtAllocatorType allocator, OrtMemType type) {
        MemoryInfo made;
        check(69, int{allocator}, int{type}, &made.held);
        return made;
    }
};

struct Value : Held<96> {
    template <typename T>
    static Value CreateTensor(const MemoryInfo &memory, T *numbers, size_t count,
                              const int64_t *shape, size_t rank) {
        static_assert(std::is_same<T, float>::value);
        Value made;
        check(49, memory.held, numbers, count * sizeof(T), shape, rank, 1, &made.held);
        return made;
    }
    template <typename T> const T *GetTensorData() const {
        void *data = nullptr;
        check(51, held, &data);
        return static_cast<T *>(data);
    }
    TensorTypeAndShapeInfo GetTensorTypeAndShapeInfo() const {
        TensorTypeAndShapeInfo found;
        check(65, held, &found.held);
        return found;
    }
};

struct RunOptions {
    explicit RunOptions(std::nullptr_t) {}
};

struct Session : Held<95> {
    Session(const Env &env, const char *model, const SessionOptions &options) {
        check(7, env.held, model, options.held, &held);
    }
    AllocatedStringPtr GetInputNameAllocated(size_t place, AllocatorWithDefaultOptions &by) const {
        return name(36, place, by);
    }
    AllocatedStringPtr GetOutputNameAllocated(size_t place, AllocatorWithDefaultOptions &by) const {
        return name(37, place, by);
    }
    TypeInfo GetInputTypeInfo(size_t place) const {
        TypeInfo found;
        check(33, held, place, &found.held);
        return found;
    }
    std::vector<Value> Run(const RunOptions &, const char *const *inputs, const Value *given,
                           size_t count, const char *const *outputs, size_t output_count) {
        std::vector<const void *> values(count);
        for (size_t k = 0; k < count; k++)
            values[k] = given[k].held;
        std::vector<void *> found(output_count);
        check(9, held, nullptr, inputs, values.data(), count, outputs, output_count, found.data());
        std::vector<Value> results(output_count);
        for (size_t k = 0; k < output_count; k++)
            results[k].held = found[k];
        return results;
    }

  private:
    AllocatedStringPtr name(int function, size_t place, AllocatorWithDefaultOptions &by) const {
        char *text = nullptr;
        check(function, held, place, by.held, &text);
        return AllocatedStringPtr(text, Free{by.held});
    }
};

} // namespace Ort
