// The command-line tools, run as programs.
#ifdef KAON_TOOLS_DIR
#include <fstream>

#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/interchange/safetensors.h"
#include "kaon/interchange/tensor_files.h"
#include "kaon/tests/interchange/tools_support.h"

namespace tools_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

TEST_CASE("tools: each has --help and --version, and says what is wrong", "[interchange]") {
  for (const char* tool : {"info", "convert", "run", "bench"}) {
    INFO(tool);
    const Ran help = run(tool, "--help");
    CHECK(help.status == 0);
    CHECK_THAT(help.text, Contains("Usage: ") && Contains("file") && Contains("--help"));
    CHECK(run(tool, "--version").status == 0);
    const Ran none = run(tool, "");
    CHECK(none.status != 0);
    CHECK_THAT(none.text, Contains("required"));
  }
  const Ran missing = run("info", "/none");
  CHECK(missing.status == 1);
  CHECK_THAT(missing.text, Contains("kaon-info: /none: cannot open"));
}

TEST_CASE("tools: kaon-info says what is in each kind of file", "[interchange]") {
  const Ran tensors = run("info", quoted(foreign_file("all.safetensors")));
  CHECK(tensors.status == 0);
  CHECK_THAT(tensors.text, Contains("safetensors") && Contains("made by: safetensors") && Contains("tensors: 16") &&
                               Contains("bfloat16") && Contains("(3, 4)"));
  CHECK_THAT(run("info", quoted(foreign_file("f8.safetensors"))).text,
             Contains("not supported: Kaon has no such dtype"));
  CHECK_THAT(run("info", quoted(foreign_file("tree.pt"))).text,
             Contains("PyTorch's archive") && Contains("tensors.int64"));
  CHECK_THAT(run("info", quoted(foreign_file("stored.npz")) + " --tensors 2").text, Contains("... 10 more"));
  CHECK_THAT(run("info", quoted(foreign_file("legacy.pt"))).text, Contains("before 1.6"));
  CHECK_THAT(run("info", quoted(foreign_file("complex.npy"))).text, Contains("<c8") && Contains("no such dtype"));
  const Ran evil = run("info", quoted(foreign_file("evil.pt")));
  CHECK(evil.status == 0);
  CHECK_THAT(evil.text, Contains("only running code could make"));

  const Ran checkpoint = run("info", quoted(foreign_file("checkpoint.pt")));
  CHECK(checkpoint.status == 0);
  CHECK_THAT(checkpoint.text, Contains("net.weight") && Contains("not supported: the value 'args' at byte") &&
                                  Contains("'argparse.Namespace', which only running code could make") &&
                                  Contains("the value 'history.loss.0'") && Contains("and 2 more of this kind") &&
                                  Contains("the tensor 'f8' at byte") &&
                                  Contains("a dtype that Kaon has, found 'torch.float8_e4m3fn'"));

  const Exported e;
  const Ran net =
      run("info", quoted(e.folder / "net-symbol.json") + " --shape 2,3 --plot " + quoted(e.folder / "p.dot"));
  CHECK(net.status == 0);
  CHECK_THAT(net.text, Contains("2 FullyConnected") && Contains("Total params: 26") && Contains("p.dot"));
  CHECK(fs::exists(e.folder / "p.dot"));
}

TEST_CASE("tools: kaon-convert keeps what converts, casts and renames", "[interchange]") {
  const ScratchFolder folder;
  const auto convert = [&](const fs::path& in, const std::string& out, const std::string& options = "") {
    const Ran ran = run("convert", quoted(in) + " " + quoted(folder / out) + " " + options);
    INFO(ran.text);
    REQUIRE(ran.status == 0);
    return load_tensors(folder / out);
  };
  const std::string long_name(3000, 'n');  // rules take no longer ones than 2,000
  save_tensors(folder / "long.safetensors", {{long_name, nd.ones({2})}});
  CHECK(convert(folder / "long.safetensors", "long.npz").at(0).first == long_name);
  CHECK_THAT(
      run("convert", quoted(folder / "long.safetensors") + " " + quoted(folder / "l.npz") + " --rename n=m").text,
      Contains("a name of 3000 characters is too long for rules"));
  const NamedArrays all = load_tensors(foreign_file("all.safetensors"));
  for (const char* out : {"a.npz", "a.params", "b.safetensors", "m.safetensors.index.json"}) {
    const std::string_view name = out;
    const NamedArrays converted = convert(foreign_file("all.safetensors"), out,
                                          name.ends_with("npz")      ? "--compress"
                                          : name.ends_with("params") ? ""
                                                                     : "--shard-bytes 100000");
    REQUIRE(converted.size() == all.size());
    for (const auto& [name, array] : all) CHECK(same_bytes(find(converted, name), array));
  }
  const NamedArrays some = convert(foreign_file("net.pt"), "some.safetensors",
                                   "--only '^state_dict' --strip-prefix state_dict. --rename '^([0-9])=layer$1' "
                                   "--add-prefix m. --dtype bfloat16 --metadata format=pt");
  CHECK(find(some, "m.layer0.weight").dtype() == DType::bfloat16);
  // what is not read of a checkpoint is said, and a tensor among it refused where it is asked for
  CHECK(convert(foreign_file("checkpoint.pt"), "net.npz", "--only '^net[.]'").size() == 2);
  const std::string checkpoint = quoted(foreign_file("checkpoint.pt")) + " " + quoted(folder / "c.npz");
  CHECK_THAT(run("convert", checkpoint + " --only '^(net|path)'").text,
             Contains("2 tensors") && Contains("left out: path (an object of 'pathlib"));
  const Ran refused = run("convert", checkpoint);
  CHECK(refused.status == 1);
  CHECK_THAT(refused.text, Contains("at byte") && Contains("'f8'") && Contains("float8_e4m3fn"));
  CHECK(find(some, "m.layer1.num_batches_tracked").dtype() == DType::int64);
  CHECK(safetensors::load(folder / "some.safetensors").metadata.at("format") == "pt");

  const Exported e;
  const NamedArrays plain = convert(e.folder / "net-0000.params", "plain.safetensors");
  CHECK(plain.size() == 4);
  CHECK(plain[0].first.find(':') == std::string::npos);
  CHECK(run("convert", quoted(e.folder / "net-symbol.json") + " " + quoted(folder / "p.dot")).status == 0);
  CHECK_THAT(run("convert", quoted(e.folder / "net-symbol.json") + " " + quoted(folder / "p.npz")).text,
             Contains("has no tensors: convert the file of its weights"));
  CHECK_THAT(run("convert", quoted(foreign_file("net.pt")) + " " + quoted(folder / "p.pt")).text,
             Contains("PyTorch's files are read, not written"));
  CHECK_THAT(run("convert", quoted(foreign_file("net.pt")) + " " + quoted(folder / "p.npz") + " --dtype float3").text,
             Contains("got 'float3'"));
  CHECK_THAT(run("convert", quoted(foreign_file("net.pt")) + " " + quoted(folder / "p.npz") + " --rename '(=x'").text,
             Contains("is no regular expression"));
  const Ran none = run("convert", quoted(foreign_file("net.pt")) + " " + quoted(folder / "none.npz") + " --only zzz");
  CHECK(none.status != 0);
  CHECK_THAT(none.text, Contains("no tensor of") && Contains("'zzz'"));
  CHECK(!fs::exists(folder / "none.npz"));
}

TEST_CASE("tools: kaon-run gives what the net gives", "[interchange]") {
  const Exported e;
  const std::string net = quoted(e.folder / "net-symbol.json"), x = quoted(e.folder / "x.npy");
  const auto outputs = [&](const std::string& arguments) {
    const Ran ran = run("run", net + " " + arguments + " --output " + quoted(e.folder / "y.npy"));
    INFO(ran.text);
    REQUIRE(ran.status == 0);
    return npy::load(e.folder / "y.npy");
  };
  CHECK(same_bytes(outputs("--input " + x), e.y));
  CHECK(same_bytes(outputs("--input data=" + x), e.y));
  npz::save(e.folder / "in.npz", {{"data", e.x}});
  CHECK(same_bytes(outputs("--input " + quoted(e.folder / "in.npz")), e.y));
  // weights of another kind
  REQUIRE(run("convert", quoted(e.folder / "net-0000.params") + " " + quoted(e.folder / "w.safetensors")).status == 0);
  CHECK(same_bytes(outputs("--input " + x + " --params " + quoted(e.folder / "w.safetensors")), e.y));
  CHECK_THAT(run("run", net + " --input " + x).text, Contains("(2, 2) float32") && Contains("@cpu(0)"));
  CHECK_THAT(run("run", net + " --input other=" + x).text,
             Contains("'other' is no input of the net; its inputs: data"));
  CHECK_THAT(run("run", x + " --input " + x).text, Contains("expected a net"));
}

TEST_CASE("tools: kaon-bench has a row for each batch and number of threads", "[interchange]") {
  const Exported e;
  const Ran ran =
      run("bench", quoted(e.folder / "net-symbol.json") + " --shape 1,3 --batch 1,4 --threads 1,2 --seconds 0.01");
  INFO(ran.text);
  CHECK(ran.status == 0);
  CHECK(std::ranges::count(ran.text, '\n') == 5);
  CHECK_THAT(run("bench", quoted(e.folder / "net-symbol.json") + " --shape 1,0").text,
             Contains("numbers of 1 or more"));
  CHECK_THAT(run("bench", quoted(e.folder / "net-symbol.json") + " --shape x=1,3").text, Contains("no input 'x'"));
  for (const char* option : {"--threads 0", "--threads -1", "--batch 0", "--batch 1,0"}) {
    const Ran refused = run("bench", quoted(e.folder / "net-symbol.json") + " --shape 1,3 " + option);
    CAPTURE(option, refused.text);
    CHECK(refused.status != 0);
    CHECK_THAT(refused.text, Contains("not in range"));
  }
}

namespace {

// A model of one operator that nobody knows.
onnx::format::Model imaginary() {
  onnx::format::Model m;
  m.ir_version = 8;
  m.opsets[""] = 17;
  onnx::format::Node node;
  node.op_type = "Imaginary", node.inputs = {"x"}, node.outputs = {"y"};
  m.graph.nodes = {node};
  for (auto [name, to] : {std::pair("x", &m.graph.inputs), std::pair("y", &m.graph.outputs)}) {
    onnx::format::ValueInfo info;
    info.name = name, info.type = onnx::format::ElementType::float32;
    to->push_back(info);
  }
  return m;
}

// A net as ONNX, of any batch, and what it gives.
struct ExportedOnnx : Exported {
  std::string file = quoted(folder / "net.onnx"), input;
  ExportedOnnx() {
    onnx::save(net, folder / "net.onnx", {.batch_name = "n"});
    input = onnx::load(folder / "net.onnx").inputs().at(0).name;
  }
};

}  // namespace

TEST_CASE("tools: kaon-info says what an ONNX model has and lacks", "[interchange]") {
  const ExportedOnnx e;
  const Ran info = run("info", e.file);
  INFO(info.text);
  CHECK(info.status == 0);
  CHECK_THAT(info.text, Contains("ONNX") && Contains("opset of ai.onnx: 17") && Contains("2 Gemm") &&
                            Contains("inputs: 1") && Contains(e.input) && Contains("outputs: 1"));
  CHECK_THAT(info.text, !Contains("not supported"));
  const Ran table = run("info", e.file + " --shape 2,3 --plot " + quoted(e.folder / "p.dot"));
  INFO(table.text);
  CHECK(table.status == 0);
  CHECK_THAT(table.text, Contains("Total params: 26") && Contains("p.dot"));
  CHECK(fs::exists(e.folder / "p.dot"));
  CHECK_THAT(run("info", e.file + " --shape other=2,3").text, Contains("no input 'other'"));
  CHECK_THAT(run("info", quoted(e.folder / "x.npy") + " --shape 2,3").text, Contains("are for nets"));
  const fs::path strange = e.folder / "strange.onnx";
  std::ofstream(strange, std::ios::binary) << onnx::format::write_model(imaginary());
  const Ran lacking = run("info", quoted(strange));
  CHECK(lacking.status == 0);
  CHECK_THAT(lacking.text, Contains("not supported: ") && Contains("Imaginary"));
  CHECK_THAT(run("bench", quoted(strange) + " --shape 1,3").text, Contains("Imaginary"));
}

TEST_CASE("tools: kaon-run and kaon-bench take ONNX models", "[interchange]") {
  const ExportedOnnx e;
  const std::string x = quoted(e.folder / "x.npy");
  const auto outputs = [&](const std::string& arguments) {
    const Ran ran = run("run", e.file + " " + arguments + " --output " + quoted(e.folder / "y.npy"));
    INFO(ran.text);
    REQUIRE(ran.status == 0);
    return npy::load(e.folder / "y.npy");
  };
  const auto agrees = [&](const NDArray& y) {
    return y.shape() == e.y.shape() && nd.max(nd.abs(y - e.y)).asscalar<float>() < 1e-4f;
  };
  CHECK(agrees(outputs("--input " + x)));
  CHECK(agrees(outputs("--input " + e.input + "=" + x)));
  CHECK_THAT(run("run", e.file + " --input " + x + " --params " + x).text, Contains("an ONNX model has its own"));
  npy::save(e.folder / "wide.npy", nd.ones({2, 4}));
  CHECK_THAT(run("run", e.file + " --input " + quoted(e.folder / "wide.npy")).text, Contains("has shape (n, 3)"));
  const Ran bench = run("bench", e.file + " --shape 1,3 --batch 1,4 --threads 1,2 --seconds 0.01");
  INFO(bench.text);
  CHECK(bench.status == 0);
  CHECK(std::ranges::count(bench.text, '\n') == 5);
  // inputs have the model's dtypes
  const fs::path loop = data_file("onnx/control_flow/loop_count/model.onnx");
  const Ran whole = run("bench", quoted(loop) + " --shape x=3 --shape n=1 --seconds 0.01");
  INFO(whole.text);
  CHECK_THAT(whole.text, Contains("the input n has shape (), got (1,)"));
}

TEST_CASE("tools: kaon-convert takes nets to ONNX and back", "[interchange]") {
  const ExportedOnnx e;
  const auto convert = [&](const std::string& in, const std::string& out, const std::string& options) {
    const Ran ran = run("convert", in + " " + quoted(e.folder / out) + " " + options);
    INFO(ran.text);
    CHECK(ran.status == 0);
  };
  const auto result = [&](const std::string& net) {
    const Ran ran = run("run", quoted(e.folder / net) + " --input " + quoted(e.folder / "x.npy") + " --output " +
                                   quoted(e.folder / "y.npy"));
    INFO(ran.text);
    REQUIRE(ran.status == 0);
    return nd.max(nd.abs(npy::load(e.folder / "y.npy") - e.y)).asscalar<float>();
  };
  convert(e.file, "back-symbol.json", "--shape 2,3");
  CHECK(result("back-symbol.json") < 1e-4f);
  convert(quoted(e.folder / "net-symbol.json"), "again.onnx", "--shape data=2,3");
  CHECK(result("again.onnx") < 1e-4f);
  convert(quoted(e.folder / "net-symbol.json"), "beside.onnx", "--shape data=2,3 --file-bytes 0");
  CHECK(result("beside.onnx") < 1e-4f);
  convert(e.file, "whole.onnx", "");
  CHECK(onnx::load(e.folder / "whole.onnx").inputs().at(0).dim_names.at(0) == "n");
  CHECK(result("whole.onnx") < 1e-4f);
  convert(e.file, "same.onnx", "--shape 2,3");
  CHECK(result("same.onnx") < 1e-4f);
  CHECK(onnx::load(e.folder / "same.onnx").inputs().at(0).shape == Shape(2, 3));
  CHECK_THAT(run("convert", e.file + " " + quoted(e.folder / "b-symbol.json")).text, Contains("--shape: none for"));
  CHECK_THAT(run("convert", e.file + " " + quoted(e.folder / "b.npz") + " --shape 2,3").text,
             Contains("--shape is for nets between"));
}

TEST_CASE("tools: kaon-convert keeps the names of inputs and outputs, and quantised graphs", "[interchange]") {
  const ScratchFolder folder;
  const auto names = [](const std::vector<onnx::ValueInfo>& values) {
    std::vector<std::string> all;
    for (const auto& value : values) all.push_back(value.name);
    return all;
  };
  for (const char* model : {"quantised/operators_uint8", "quantised/pairs_int8", "quantised/dense_dynamic"}) {
    CAPTURE(model);
    const fs::path in = data_file("onnx/" + std::string(model) + "/model.onnx");
    const onnx::Block before = onnx::load(in);
    const Shape shape = before.inputs().at(0).shape;
    std::string text;
    for (const int64_t size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
    const Ran ran = run("convert", quoted(in) + " " + quoted(folder / "out.onnx") + " --shape " +
                                       before.inputs().at(0).name + "=" + text);
    INFO(ran.text);
    REQUIRE(ran.status == 0);
    const onnx::Block after = onnx::load(folder / "out.onnx");
    CHECK(names(after.inputs()) == names(before.inputs()));
    CHECK(names(after.outputs()) == names(before.outputs()));
    CHECK(after.summary().operators == before.summary().operators);
    CHECK(after.outputs().at(0).has_shape);
  }
  // of a program of MXNet's too
  const Symbol program = sym.as("sum").broadcast_add(sym.var("left"), sym.var("right"));
  program.save(folder / "sum-symbol.json");
  const Ran ran = run("convert", quoted(folder / "sum-symbol.json") + " " + quoted(folder / "sum.onnx") +
                                     " --shape left=2,3 --shape right=1,3");
  INFO(ran.text);
  REQUIRE(ran.status == 0);
  CHECK(names(onnx::load(folder / "sum.onnx").inputs()) == std::vector<std::string>{"left", "right"});
  CHECK(names(onnx::load(folder / "sum.onnx").outputs()) == program.list_outputs());
}
#endif

}  // namespace tools_test
