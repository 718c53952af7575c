// A program to look at: a table of its operators, and its picture.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "kaon/engine/api.h"
#include "kaon/graph/symbol.h"

namespace KAON_API kaon {

// How often each operator is in the program, by its name in files.
KAON_API std::map<std::string, int64_t> count_operators(const Symbol& program);

// A row for each operator, inputs before their users: its name and kind, the shape of its output as far as it follows
// from `shapes`, the number of elements of the parameters that it alone or first reads, and what comes before it.
// Parameters are the variables that `shapes` does not name. MXNet's print_summary. Throws ValueError for a name that is
// no variable, ShapeError for shapes that do not fit, naming the node.
KAON_API std::string print_summary(const Symbol& program, const Shapes& shapes);

struct PlotOptions {
  Shapes shapes{};  // of the inputs: what edges say follows from them
  std::string title = "plot";
  bool hide_weights = true;  // variables that `shapes` does not name; where it names none, those that are called so
};

// The picture as a text in Graphviz's language. MXNet's plot_network. Throws as print_summary().
KAON_API std::string network_dot(const Symbol& program, const PlotOptions& options = {});
// Writes the picture as SVG, which Graphviz's program `dot` draws. Where that is not installed, the text in its
// language, to a file with the extension .dot in place of its own; so too where `file` ends in .dot. Returns the file
// that was written. Blocks. Throws IoError, also where `dot` fails.
KAON_API std::filesystem::path plot_network(const Symbol& program, const std::filesystem::path& file,
                                            const PlotOptions& options = {});

}  // namespace kaon
