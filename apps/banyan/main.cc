#include "program.h"

int main(int argc, char** argv) { return banyan::app::RunProgram(argc, argv); }
