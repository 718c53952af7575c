#include "kaon/interchange/file/json_text.h"

#include <fmt/format.h>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parser.hpp>
#include <string>
#include <unordered_set>
#include <vector>

namespace kaon::interchange {

namespace json = boost::json;

namespace {

// Sees each key of each object: the values of Boost.JSON keep the last of several.
struct KeyWatch {
  static constexpr size_t max_object_size = size_t(-1), max_array_size = size_t(-1), max_key_size = size_t(-1),
                          max_string_size = size_t(-1);
  using Code = json::error_code;
  std::vector<std::unordered_set<std::string>> open;
  std::string key, twice;

  bool on_object_begin(Code&) {
    open.emplace_back();
    return true;
  }
  bool on_object_end(size_t, Code&) {
    open.pop_back();
    return true;
  }
  bool on_key_part(json::string_view s, size_t, Code&) {
    key.append(s.data(), s.size());
    return true;
  }
  bool on_key(json::string_view s, size_t n, Code& error) {
    on_key_part(s, n, error);
    const bool is_new = open.back().insert(key).second;
    if (!is_new) {
      twice = key;
      error = json::error::extra_data;  // any: the parser stops
    }
    key.clear();
    return is_new;
  }
  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(size_t, Code&) { return true; }
  bool on_string_part(json::string_view, size_t, Code&) { return true; }
  bool on_string(json::string_view, size_t, Code&) { return true; }
  bool on_number_part(json::string_view, Code&) { return true; }
  bool on_int64(int64_t, json::string_view, Code&) { return true; }
  bool on_uint64(uint64_t, json::string_view, Code&) { return true; }
  bool on_double(double, json::string_view, Code&) { return true; }
  bool on_bool(bool, Code&) { return true; }
  bool on_null(Code&) { return true; }
  bool on_comment_part(json::string_view, Code&) { return true; }
  bool on_comment(json::string_view, Code&) { return true; }
};

}  // namespace

json::value parse_json(const FileBytes& file, uint64_t at, uint64_t bytes, std::string_view what) {
  const std::string_view text = file.part(at, bytes, what);
  json::parse_options options;
  options.max_depth = 32;
  json::error_code error;
  json::basic_parser<KeyWatch> keys(options);
  const size_t seen = keys.write_some(false, text.data(), text.size(), error);
  if (!keys.handler().twice.empty()) {
    file.fail(at + seen, fmt::format("each key of {} once", what), fmt::format("'{}' again", keys.handler().twice));
  }
  json::parser parser({}, options);
  const size_t done = error ? seen : parser.write_some(text.data(), text.size(), error);
  if (!error && done < text.size()) error = json::error::extra_data;
  if (error) file.fail(at + done, fmt::format("{} as JSON", what), error.message());
  return parser.release();
}

}  // namespace kaon::interchange
