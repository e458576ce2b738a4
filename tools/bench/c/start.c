/* A program that starts and ends, with five libraries of PMDK. */
int main(void)
{
    return 0;
}
