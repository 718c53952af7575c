// Packs image files into a file of records, as MXNet's tools/im2rec.py: first a list, then the records.
//   im2rec --list --recursive train photos     # train.lst: key, label by folder, path
//   im2rec train photos                        # train.rec and train.idx, for vision::ImageRecordDataset("train.rec")
#include <kaon/gluon/data/record_io.h>

#include <optional>
#include <string>
#include <vector>

#include "command_line.h"

namespace recordio = kaon::recordio;

namespace {

constexpr const char* usage = R"(usage: im2rec [options] PREFIX ROOT
Writes PREFIX.rec and PREFIX.idx from the files of PREFIX.lst, whose paths begin at ROOT. Files are taken as they are,
unless they are to be changed.

  --list            write PREFIX.lst of the .jpg, .jpeg and .png files in ROOT instead
  --recursive       with --list: and in its folders, each a label of its own
  --pack-label      all labels of a line of the list; without, the first
  --skip-corrupt    leave out files that cannot be read
  --resize N        the shorter side
  --center-crop     to a square
  --encoding X      .jpg or .png, of files that are changed; given, all are
  --quality N       of JPEG 1 to 100, of PNG 0 to 9 (default 95, 3)
  --color N         1: three channels; 0: grey (default 1)
  --help            print this
)";

struct Options {
  bool list = false, recursive = false, help = false;
  std::optional<int> quality;
  recordio::PackOptions pack;
  std::vector<std::string> paths;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&]() -> std::string_view {
      if (++i == argc) throw examples::UsageError(argument + " needs a value");
      return argv[i];
    };
    if (argument == "--list") {
      o.list = true;
    } else if (argument == "--recursive") {
      o.recursive = true;
    } else if (argument == "--pack-label") {
      o.pack.pack_label = true;
    } else if (argument == "--skip-corrupt") {
      o.pack.skip_corrupt = true;
    } else if (argument == "--resize") {
      o.pack.resize = examples::parse_number<int64_t>(argument, value(), 1, 1 << 16);
    } else if (argument == "--center-crop") {
      o.pack.center_crop = true;
    } else if (argument == "--encoding") {
      const std::string_view encoding = value();
      if (encoding != ".jpg" && encoding != ".png") throw examples::UsageError("--encoding: expected .jpg or .png");
      o.pack.format.is_png = encoding == ".png";
      o.pack.encode = true;
    } else if (argument == "--quality") {
      o.quality = examples::parse_number(argument, value(), 0, 100);
    } else if (argument == "--color") {
      o.pack.flag = examples::parse_number(argument, value(), 0, 1);
    } else if (argument == "--help") {
      o.help = true;
    } else if (argument.starts_with("-")) {
      throw examples::UsageError("unknown option '" + argument + "'");
    } else {
      o.paths.push_back(argument);
    }
  }
  if (o.quality) (o.pack.format.is_png ? o.pack.format.compression : o.pack.format.quality) = *o.quality;
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
  const auto items = recordio::read_list(list);
  const int64_t count = recordio::pack_files(items, root, prefix, o.pack);
  fmt::print("{}.rec: {} records of {} files\n", prefix, count, items.size());
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program(
      "im2rec", usage, [&] { return parse(argc, argv); }, run);
}
