// The code of docs/interchange.md.
#include <catch2/catch.hpp>

#include <filesystem>

#include <kaon/interchange/onnx.h>
#include <kaon/kaon.h>

namespace interchange_test {

using namespace kaon;

TEST_CASE("interchange page: a net is written as ONNX and read back") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "kaon_interchange_page";
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  const NDArray x = nd.ones({2, 5, 3});
  {
    gluon::nn::Dense net(4, {.flatten = false});
    net.initialize();
    net.hybridize();
    net(x);
    onnx::save(net, "model.onnx", {.opset = 17});
    onnx::save(net, "model.onnx", {.batch_name = "n"});
    onnx::save(net, "model.onnx", {.batch_name = "n", .named = {{"data", 1, "steps"}}});
    onnx::save(net, "model.onnx", {.max_file_bytes = 100'000'000});
  }
  onnx::Block net = onnx::load("model.onnx");
  NDArray y = net(x);  // or net.forward({a, b})
  CHECK(y.shape() == Shape(2, 5, 4));
  std::filesystem::current_path("/");
  std::filesystem::remove_all(folder);
}

}  // namespace interchange_test
