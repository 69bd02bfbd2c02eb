// `dspark pull`: fetches a model by known name or URL. Main thread.
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/io.h"
#include "tools/model_choice.h"

namespace dspark {

Result<ExitCode> cmd_pull(const Invocation& call) {
  const std::string& model = call.operands[0];
  DSPARK_TRY(const std::string path, local_model(model));
  DSPARK_RETURN_IF_ERROR(call.settings.get<"json">() ? write_json({{"model", model}, {"path", path}})
                                                     : write_output(path + '\n'));
  return ExitCode::kOk;
}

}  // namespace dspark
