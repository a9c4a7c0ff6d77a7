/* Runs an integer model on one sample, with compiled kernels, and prints the top class:

       classify model.int8.onnx KERNELS sample.f32

   KERNELS is what qpasses.native_library() says; sample.f32 holds the float32 numbers of the
   only input, numpy.ndarray.tofile writes them. */

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <vector>

static std::vector<float> numbers_of(const char *path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    std::vector<float> numbers(file ? static_cast<size_t>(file.tellg()) / sizeof(float) : 0);
    file.seekg(0);
    file.read(reinterpret_cast<char *>(numbers.data()),
              static_cast<std::streamsize>(numbers.size() * sizeof(float)));
    return numbers;
}

static void classify(const char *model, const char *kernels, const char *sample) {
    Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "classify");
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(1);
    options.RegisterCustomOpsLibrary(kernels); /* without this line bodies run */
    Ort::Session session(env, model, options);

    Ort::AllocatorWithDefaultOptions allocator;
    const Ort::AllocatedStringPtr input = session.GetInputNameAllocated(0, allocator);
    const Ort::AllocatedStringPtr output = session.GetOutputNameAllocated(0, allocator);
    const Ort::TypeInfo type = session.GetInputTypeInfo(0);
    std::vector<int64_t> shape = type.GetTensorTypeAndShapeInfo().GetShape();
    for (int64_t &size : shape)
        size = size < 0 ? 1 : size; /* what is free: a batch of one */

    std::vector<float> numbers = numbers_of(sample);
    const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    const Ort::Value given = Ort::Value::CreateTensor<float>(memory, numbers.data(), numbers.size(),
                                                             shape.data(), shape.size());
    const char *inputs[] = {input.get()}, *outputs[] = {output.get()};
    const std::vector<Ort::Value> found =
        session.Run(Ort::RunOptions{nullptr}, inputs, &given, 1, outputs, 1);

    const float *scores = found[0].GetTensorData<float>();
    const size_t count = found[0].GetTensorTypeAndShapeInfo().GetElementCount();
    std::cout << std::max_element(scores, scores + count) - scores << "\n";
}

int main(int count, char **arguments) {
    if (count != 4) {
        std::cerr << "usage: classify MODEL KERNELS SAMPLE\n";
        return 2;
    }
    try {
        classify(arguments[1], arguments[2], arguments[3]);
        return 0;
    } catch (const Ort::Exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
