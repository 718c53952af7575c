// Packs image files into a file of records, as MXNet's tools/im2rec.py --pass-through: first a list, then the records.
//   im2rec --list --recursive train photos     # train.lst: key, label by folder, path
//   im2rec train photos                        # train.rec and train.idx, for vision::ImageRecordDataset("train.rec")
#include <kaon/gluon/data/record_io.h>

#include <string>
#include <vector>

#include "command_line.h"

namespace recordio = kaon::recordio;

namespace {

constexpr const char* usage = R"(usage: im2rec [options] PREFIX ROOT
Writes PREFIX.rec and PREFIX.idx from the files of PREFIX.lst, whose paths begin at ROOT. Files are taken as they are.

  --list          write PREFIX.lst of the .jpg, .jpeg and .png files in ROOT instead
  --recursive     with --list: and in its folders, each a label of its own
  --pack-label    all labels of a line of the list; without, the first
  --skip-missing  leave out files that cannot be read
  --help          print this
)";

struct Options {
  bool list = false, recursive = false, pack_label = false, skip_missing = false, help = false;
  std::vector<std::string> paths;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--list") {
      o.list = true;
    } else if (argument == "--recursive") {
      o.recursive = true;
    } else if (argument == "--pack-label") {
      o.pack_label = true;
    } else if (argument == "--skip-missing") {
      o.skip_missing = true;
    } else if (argument == "--help") {
      o.help = true;
    } else if (argument.starts_with("-")) {
      throw examples::UsageError("unknown option '" + argument + "'");
    } else {
      o.paths.push_back(argument);
    }
  }
  if (!o.help && o.paths.size() != 2) throw examples::UsageError("expected PREFIX and ROOT");
  return o;
}

void run(const Options& o) {
  const std::string prefix = o.paths[0], root = o.paths[1], list = prefix + ".lst";
  if (o.list) {
    const auto items = recordio::list_images(root, o.recursive);
    recordio::write_list(list, items);
    fmt::print("{}: {} images\n", list, items.size());
    return;
  }
  const int64_t count = recordio::pack_files(recordio::read_list(list), root, prefix,
                                             {.pack_label = o.pack_label, .skip_missing = o.skip_missing});
  fmt::print("{}.rec: {} records\n", prefix, count);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program(
      "im2rec", usage, [&] { return parse(argc, argv); }, run);
}
