// The dspark command. Main thread.
int main() { return 0; }
