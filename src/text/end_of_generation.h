// Which tokens end a turn or a text, by their names in published models: files seldom say. Pure, any thread.
#pragma once

#include "text/tokenizer_spec.h"

namespace dspark {

// Adds to spec.end_of_generation what its tokens' names tell, and sets spec.eot if it is not set.
void add_end_of_generation(TokenizerSpec& spec);

}  // namespace dspark
