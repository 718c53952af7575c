// NVRTC: the source, followed by a table of its kernels, goes through the C++ compiler in a folder of its own.
#include "nvrtc.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kaon_emulator/rtc.h"

extern char** environ;

using kaon_emulator::RtcImage;
namespace fs = std::filesystem;

struct _nvrtcProgram {
  std::string source, name;
  std::vector<std::pair<std::string, std::string>> headers;  // name, text
  std::string log, image;
  bool is_real = false;  // of an architecture sm_.., not compute_..
};

namespace {

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "kaon_nvrtc_XXXXXX").string();
    if (mkdtemp(name.data())) path = name;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool write_file(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  return bool(file.flush());
}

// What the command says goes to `log`. False when it failed.
bool run(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t child = 0;
  const int failure = posix_spawn(&child, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  int status = 0;
  return failure == 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::set<std::string> kernels_of(const std::string& source) {
  static const std::regex kernel(R"(__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+)"
                                 R"((?:__launch_bounds__\s*\([^)]*\)\s*)?([A-Za-z_]\w*)\s*\()");
  std::set<std::string> names;
  for (std::sregex_iterator at(source.begin(), source.end(), kernel), end; at != end; ++at) names.insert((*at)[1]);
  return names;
}

// Options that change nothing here: code generation, rounding, and the language, which is C++20.
bool is_accepted(std::string_view option) {
  static constexpr std::string_view names =
      " std use_fast_math fmad ftz prec-div prec-sqrt default-device device-as-default-execution-space lineinfo "
      "generate-line-info restrict extra-device-vectorization maxrregcount dopt w disable-warnings diag-suppress "
      "minimal device-debug G ";
  option.remove_prefix(std::min(option.find_first_not_of('-'), option.size()));
  return names.find(fmt::format(" {} ", option.substr(0, option.find('=')))) != names.npos;
}

bool starts(std::string_view option, std::initializer_list<std::string_view> prefixes, std::string& rest) {
  for (std::string_view prefix : prefixes) {
    if (!option.starts_with(prefix)) continue;
    rest = option.substr(prefix.size());
    return true;
  }
  return false;
}

fs::path emulator_library() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&nvrtcVersion), &info);
  return info.dli_fname;
}

nvrtcResult copy(const std::string& from, char* to) {
  if (!to) return NVRTC_ERROR_INVALID_INPUT;
  std::memcpy(to, from.data(), from.size());
  return NVRTC_SUCCESS;
}

}  // namespace

const char* nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS: return "NVRTC_SUCCESS";
    case NVRTC_ERROR_OUT_OF_MEMORY: return "NVRTC_ERROR_OUT_OF_MEMORY";
    case NVRTC_ERROR_PROGRAM_CREATION_FAILURE: return "NVRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case NVRTC_ERROR_INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
    case NVRTC_ERROR_INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION: return "NVRTC_ERROR_COMPILATION";
    case NVRTC_ERROR_INTERNAL_ERROR: return "NVRTC_ERROR_INTERNAL_ERROR";
  }
  return "NVRTC_ERROR unknown";
}

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 99;  // no real one: kernels that are kept in files are not taken for its
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name, int num_headers,
                               const char* const* headers, const char* const* header_names) {
  if (!program || !source || num_headers < 0) return NVRTC_ERROR_INVALID_INPUT;
  auto made = std::make_unique<_nvrtcProgram>();
  made->source = source;
  made->name = name ? name : "default_program";
  for (int i = 0; i < num_headers; ++i) made->headers.emplace_back(header_names[i], headers[i]);
  *program = made.release();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  if (!program || !*program) return NVRTC_ERROR_INVALID_PROGRAM;
  delete std::exchange(*program, nullptr);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int num_options, const char* const* options) {
  if (!program) return NVRTC_ERROR_INVALID_PROGRAM;
  const Folder folder;
  if (folder.path.empty()) return NVRTC_ERROR_INTERNAL_ERROR;
  const fs::path source = folder.path / "source.cpp", object = folder.path / "object.so", log = folder.path / "log";
  std::vector<std::string> command = {KAON_EMULATOR_COMPILER, "-std=c++20"};
  for (const char* flag : {"-O1", "-fPIC", "-shared", "-fno-math-errno", "-ffp-contract=off"}) command.push_back(flag);
  // so that objects that have names in common keep to themselves
  for (const char* flag : {"-fvisibility=hidden", "-fno-gnu-unique"}) command.push_back(flag);
  for (const char* flag : {"-include", KAON_EMULATOR_INCLUDE "/kaon_emulator/rtc.h"}) command.push_back(flag);
  command.push_back("-I" + folder.path.string());
  std::string architecture = "compute_75", rest;  // NVRTC's default
  for (int i = 0; i < num_options; ++i) {
    if (starts(options[i], {"--gpu-architecture=", "-arch="}, rest)) {
      architecture = rest;
    } else if (starts(options[i], {"--define-macro=", "-D"}, rest)) {
      command.push_back("-D" + rest);
    } else if (starts(options[i], {"--include-path=", "-I"}, rest)) {
      command.push_back("-I" + rest);
    } else if (!is_accepted(options[i])) {
      program->log = fmt::format("error: unrecognized option {} found\n", options[i]);
      return NVRTC_ERROR_INVALID_OPTION;
    }
  }
  RtcImage image{};
  if (!std::regex_match(architecture, std::regex("(sm|compute)_[0-9]+[af]?"))) {
    program->log = fmt::format("error: invalid value for --gpu-architecture: {}\n", architecture);
    return NVRTC_ERROR_INVALID_OPTION;
  }
  std::string text = fmt::format("#line 1 \"{}\"\n{}\n", program->name, program->source);
  for (const std::string& kernel : kernels_of(program->source)) {
    text += fmt::format(
        "extern \"C\" __attribute__((visibility(\"default\"))) constinit const kaon_emulator::RtcKernel\n"
        "kaon_emulator_kernel_{0} = kaon_emulator::RtcCall<&{0}>::value;\n",
        kernel);
  }
  bool is_written = write_file(source, text);
  for (const auto& [name, header] : program->headers) is_written &= write_file(folder.path / name, header);
  if (!is_written) return NVRTC_ERROR_INTERNAL_ERROR;
  for (const fs::path& word : {source, fs::path("-o"), object, emulator_library()}) command.push_back(word.string());
  const bool is_compiled = run(command, log);
  program->log = read_file(log);
  if (!is_compiled) return NVRTC_ERROR_COMPILATION;
  const std::string bytes = read_file(object);
  std::memcpy(image.magic, RtcImage::expected_magic, sizeof image.magic);
  architecture.copy(image.architecture, sizeof image.architecture - 1);
  image.bytes = bytes.size();
  program->image.assign(reinterpret_cast<const char*>(&image), sizeof image);
  program->image += bytes;
  program->is_real = architecture.starts_with("sm_");
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* bytes) {
  if (!program || program->image.empty()) return NVRTC_ERROR_INVALID_PROGRAM;
  *bytes = program->image.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx) {
  return program ? copy(program->image, ptx) : NVRTC_ERROR_INVALID_PROGRAM;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) {
  if (!program || program->image.empty()) return NVRTC_ERROR_INVALID_PROGRAM;
  *bytes = program->is_real ? program->image.size() : 0;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
  if (!program || !program->is_real) return NVRTC_ERROR_INVALID_PROGRAM;
  return copy(program->image, cubin);
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* bytes) {
  if (!program) return NVRTC_ERROR_INVALID_PROGRAM;
  *bytes = program->log.size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  if (!program) return NVRTC_ERROR_INVALID_PROGRAM;
  return copy(program->log + '\0', log);
}
