#include "kaon/interchange/tensor_files.h"

#include "kaon/interchange/numpy_files.h"
#include "kaon/tests/interchange/support.h"

namespace tensor_files_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

TEST_CASE("tensor files: the kind is known by the contents, whatever the name", "[interchange]") {
  const ScratchFolder folder;
  nd_file::save(folder / "a", {{"a", nd.ones({2})}});
  const auto kind = [&](const fs::path& file) {
    fs::copy_file(file, folder / "copy", fs::copy_options::overwrite_existing);
    return kind_of(folder / "copy");
  };
  CHECK(kind(folder / "a") == FileKind::mxnet_params);
  CHECK(kind(foreign_file("all.safetensors")) == FileKind::safetensors);
  CHECK(kind(foreign_file("model.safetensors.index.json")) == FileKind::safetensors_index);
  CHECK(kind(foreign_file("float32.npy")) == FileKind::npy);
  CHECK(kind(foreign_file("stored.npz")) == FileKind::npz);
  CHECK(kind(foreign_file("tree.pt")) == FileKind::torch);
  CHECK(kind(foreign_file("legacy.pt")) == FileKind::torch_legacy);
  CHECK(kind(foreign_file("states/adam_float32.states")) == FileKind::mxnet_states);
  const Symbol x = Symbol::variable("x");
  sym.relu(x).save(folder / "s.json");
  CHECK(kind(folder / "s.json") == FileKind::mxnet_symbol);
  std::ofstream(folder / "text") << "hello";
  CHECK(kind_of(folder / "text") == FileKind::unknown);
  std::ofstream(folder / "empty") << "";
  CHECK(kind_of(folder / "empty") == FileKind::unknown);
  CHECK_THROWS_AS(kind_of(folder / "none"), IoError);
  CHECK_THAT(refusal([&] { load_tensors(folder / "text"); }), Contains("none of these by its contents or its name"));
  CHECK_THAT(refusal([&] { load_tensors(folder / "s.json"); }), Contains("expected a file of tensors"));
}

TEST_CASE("tensor files: each kind is written by its name and read again", "[interchange]") {
  const ScratchFolder folder;
  const NamedArrays arrays{{"a", nd.arange(6).reshape({2, 3})}, {"b", nd.ones({2}, {.dtype = DType::bfloat16})}};
  for (const char* name : {"m.params", "m.nd", "m.safetensors", "m.safetensors.index.json", "m.npz"}) {
    INFO(name);
    save_tensors(folder / name, arrays, {.max_shard_bytes = std::string_view(name).ends_with("json") ? 8u : 0u});
    const NamedArrays read = load_tensors(folder / name);
    REQUIRE(read.size() == 2);
    for (const auto& [tensor, array] : arrays) CHECK(same_bytes(find(read, tensor), array));
    const FileSummary summary = summarize_file(folder / name);
    CHECK(summary.tensors.size() == 2);
    CHECK(summary.problems.empty());
  }
  save_tensors(folder / "a.npy", {arrays[0]});
  CHECK(same_bytes(find(load_tensors(folder / "a.npy"), "a"), arrays[0].second));
  CHECK_THROWS_WITH(save_tensors(folder / "a.npy", arrays), Contains("holds one array, got 2"));
  CHECK_THROWS_WITH(save_tensors(folder / "a.pt", arrays), Contains("expected a name ending in"));
}

TEST_CASE("tensor files: a summary says what is there and what cannot be read", "[interchange]") {
  const FileSummary f8 = summarize_file(foreign_file("f8.safetensors"));
  CHECK(f8.tensors.size() == 2);
  CHECK(std::ranges::count_if(f8.tensors, [](const TensorSummary& t) { return !t.note.empty(); }) == 1);
  CHECK(summarize_file(foreign_file("all.safetensors")).metadata.at("format") == "pt");
  CHECK(summarize_file(foreign_file("complex.npy")).tensors.at(0).note == "Kaon has no such dtype");
  CHECK(summarize_file(foreign_file("legacy.pt")).problems.size() == 1);
  const ScratchFolder folder;
  const Symbol x = Symbol::variable("x"),
               y = sym.relu(sym.FullyConnected(x, Symbol::variable("w"), {.num_hidden = 2, .no_bias = true}));
  y.save(folder / "s.json");
  const FileSummary program = summarize_file(folder / "s.json");
  CHECK(program.inputs == std::vector<std::string>{"x", "w"});
  CHECK(program.operators.at("FullyConnected") == 1);
}

}  // namespace tensor_files_test
